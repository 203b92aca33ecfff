/** Everybody can use every view and every dialog: light and dark, on a desk and on a phone. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { axe } from './support/axe.ts';
import type { Device } from './support/harness.ts';
import { shared } from './support/harness-tests.ts';
import { address, sessions } from './support/locations.ts';
import { type Seed, seed } from './support/sample-sessions.ts';

const WORDS =
  '!think Both are wanted.\n' +
  '!say # A title\\n\\nSome *words*, `code`, a [link](https://example.org) and a list:\\n\\n- one\\n- [x] two\\n\\n' +
  '> A quotation\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n```rust\\nfn main() { println!("hi"); }\\n```';

const QUESTION =
  '!tool AskUserQuestion {"questions":[{"question":"Which wall?","header":"Wall","multiSelect":false,"options":' +
  '[{"label":"North","description":"Shady"},{"label":"South","description":"Sunny"}]}]}';

interface Prepared extends Seed {
  readonly words: string;
  readonly asking: string;
}

const play = shared(async (stage): Promise<Prepared> => {
  const client = await stage.client();
  const sessions = await seed(stage, client);
  const asking = await client.session();
  await asking.chat.send({ text: QUESTION });
  mkdirSync(join(stage.hostler.path('home'), 'meadow'));
  return { ...sessions, words: (await client.answered(WORDS)).uri, asking: asking.uri };
});

/** Does something, and waits until it can be looked at. */
type Step = readonly [name: string, path: string, act: (page: Page) => Promise<void>];

async function menu(page: Page, name: string, item: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click();
  await page.getByRole('menuitem', { name: item }).click();
  await page.getByRole('dialog').waitFor();
}

function steps({ finished, waiting, failed, working, words, asking }: Prepared): readonly Step[] {
  return [
    ['home', '/', (page) => sessions(page).getByText('Count the apples').waitFor()],
    ['menu', '/', (page) => page.getByRole('button', { name: 'Menu', exact: true }).click()],
    ['settings', '/', (page) => menu(page, 'Menu', 'Settings')],
    ['shortcuts', '/', (page) => menu(page, 'Menu', 'Keyboard shortcuts')],
    [
      'another device',
      '/',
      async (page) => {
        await menu(page, 'Menu', 'Continue on another device');
        await page.getByRole('textbox', { name: 'Link' }).waitFor();
      },
    ],
    [
      'palette',
      '/',
      async (page) => {
        await sessions(page).getByText('Count the apples').waitFor();
        await page.keyboard.press('Control+K');
        await page.getByRole('combobox', { name: 'Session or action' }).fill('lamp');
      },
    ],
    ['found in the list', '/', (page) => page.getByRole('searchbox', { name: 'Find a session' }).fill('apples')],
    [
      'new',
      '/new',
      async (page) => {
        await page.getByRole('combobox', { name: 'Permission mode' }).waitFor();
        await page.getByText('More options').click();
      },
    ],
    [
      'folders',
      '/new',
      async (page) => {
        await page.getByRole('button', { name: /^Folder: \S+\w/ }).click();
        await page.getByRole('dialog').getByRole('option').first().waitFor();
      },
    ],
    ['search', '/search', (page) => page.getByRole('heading', { name: 'What one can write' }).waitFor()],
    ['found', '/search?q=lamp', (page) => page.locator('mark').first().waitFor()],
    ['nothing found', '/search?q=zebra', (page) => page.getByText('Nothing was said about that.').waitFor()],
    ['Markdown', address(words), (page) => page.getByText('A quotation', { exact: true }).waitFor()],
    [
      'finished, with an open change',
      address(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await page.getByRole('button', { name: /^Edited/ }).click();
      },
    ],
    [
      'details',
      address(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Details');
      },
    ],
    [
      'delete',
      address(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Delete');
      },
    ],
    [
      'tag',
      address(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Tag');
      },
    ],
    [
      'rename',
      address(finished),
      async (page) => {
        await page.getByRole('heading', { name: 'The lamp goes out too early' }).getByRole('button').click();
        await page.getByRole('textbox', { name: 'Name of the session' }).waitFor();
      },
    ],
    ['waiting', address(waiting), (page) => page.getByRole('button', { name: 'Allow once' }).first().waitFor()],
    ['question', address(asking), (page) => page.getByText('Which wall?').first().waitFor()],
    ['failed', address(failed), (page) => page.getByText('cannot be used with your account').waitFor()],
    ['working', address(working), (page) => page.getByText('What I found so far').waitFor()],
    [
      'gone',
      address('claude:/00000000-0000-4000-8000-00000000dead'),
      (page) => page.getByRole('heading', { name: 'This session is gone' }).waitFor(),
    ],
  ];
}

/** Everything once for each layout; what only the theme changes are colours, and they are the same on a phone. */
const LOOKS = {
  desktop: [['light'], ['dark', ['color-contrast']]],
  phone: [['dark']],
} satisfies Record<Device, [colorScheme: 'light' | 'dark', rules?: readonly string[]][]>;

for (const [device, looks] of Object.entries(LOOKS) as [Device, ['light' | 'dark', (readonly string[])?][]][])
  test(
    `every view and every dialog is accessible: ${device}`,
    play(async (stage, prepared) => {
      const context = await stage.signIn(await stage.context(device, { reducedMotion: 'reduce' }));
      const page = await stage.open('/', context);
      const found: string[] = [];
      for (const [name, path, act] of steps(prepared)) {
        // Home is a list on a phone; each step begins on a page that has just been opened.
        await page.goto(stage.origin + path);
        await act(page);
        for (const [colorScheme, rules] of looks) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await axe(page, rules)).map((finding) => `${name}, ${colorScheme}: ${finding}`));
        }
      }
      expect(found).toEqual([]);
    }),
  );

test(
  'the door is accessible, too',
  play(async (stage) => {
    for (const device of ['desktop', 'phone'] satisfies Device[])
      for (const colorScheme of ['light', 'dark'] as const) {
        const page = await stage.open('/', await stage.context(device, { colorScheme }));
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('alert').waitFor();
        expect(await axe(page)).toEqual([]);
      }
  }),
);
