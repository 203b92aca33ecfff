/** Accessibility of every view and dialog, light and dark, on desktop and phone. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { findViolations } from './support/axe.ts';
import type { Device } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { createSampleSessions, type SampleSessions } from './support/sample-sessions.ts';

const MARKDOWN_SCRIPT =
  '!think Both are wanted.\n' +
  '!say # A title\\n\\nSome *text*, `code`, a [link](https://example.org) and a list:\\n\\n- one\\n- [x] two\\n\\n' +
  '> A quotation\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n```rust\\nfn main() { println!("hi"); }\\n```';

const QUESTION =
  '!tool AskUserQuestion {"questions":[{"question":"Which wall?","header":"Wall","multiSelect":false,"options":' +
  '[{"label":"North","description":"Shady"},{"label":"South","description":"Sunny"}]}]}';

interface Prepared extends SampleSessions {
  readonly markdown: string;
  readonly asking: string;
}

const browserTest = sharedHarness(async (harness): Promise<Prepared> => {
  const client = await harness.connectClient();
  const sessions = await createSampleSessions(harness, client);
  const asking = await client.createSession();
  await asking.chat.send({ text: QUESTION });
  mkdirSync(join(harness.host.path('home'), 'meadow'));
  return { ...sessions, markdown: (await client.createAnsweredSession(MARKDOWN_SCRIPT)).uri, asking: asking.uri };
});

/** Performs a step and waits until the view is ready. */
type Step = readonly [name: string, path: string, act: (page: Page) => Promise<void>];

async function menu(page: Page, name: string, item: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click();
  await page.getByRole('menuitem', { name: item }).click();
  await page.getByRole('dialog').waitFor();
}

function steps({ finished, waiting, failed, working, markdown, asking }: Prepared): readonly Step[] {
  return [
    ['home', '/', (page) => sessionsPane(page).getByText('Count the apples').waitFor()],
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
        await sessionsPane(page).getByText('Count the apples').waitFor();
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
    ['search', '/search', (page) => page.getByRole('heading', { name: 'Search syntax' }).waitFor()],
    ['found', '/search?q=lamp', (page) => page.locator('mark').first().waitFor()],
    ['nothing found', '/search?q=zebra', (page) => page.getByText('No results.').waitFor()],
    ['Markdown', sessionPath(markdown), (page) => page.getByText('A quotation', { exact: true }).waitFor()],
    [
      'finished, with an open change',
      sessionPath(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await page.getByRole('button', { name: /^Edited/ }).click();
      },
    ],
    [
      'details',
      sessionPath(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Details');
      },
    ],
    [
      'delete',
      sessionPath(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Delete');
      },
    ],
    [
      'tag',
      sessionPath(finished),
      async (page) => {
        await page.getByText('Nothing else calls it.').waitFor();
        await menu(page, 'Session menu', 'Tag');
      },
    ],
    [
      'rename',
      sessionPath(finished),
      async (page) => {
        await page.getByRole('heading', { name: 'The lamp goes out too early' }).getByRole('button').click();
        await page.getByRole('textbox', { name: 'Session name' }).waitFor();
      },
    ],
    ['waiting', sessionPath(waiting), (page) => page.getByRole('button', { name: 'Allow once' }).first().waitFor()],
    ['question', sessionPath(asking), (page) => page.getByText('Which wall?').first().waitFor()],
    ['failed', sessionPath(failed), (page) => page.getByText('cannot be used with your account').waitFor()],
    ['working', sessionPath(working), (page) => page.getByText('What I found so far').waitFor()],
    [
      'gone',
      sessionPath('claude:/00000000-0000-4000-8000-00000000dead'),
      (page) => page.getByRole('heading', { name: 'This session no longer exists' }).waitFor(),
    ],
  ];
}

/** All rules once per layout; a theme changes only colors, which are the same on a phone. */
const THEMES_AND_DEVICES = {
  desktop: [['light'], ['dark', ['color-contrast']]],
  phone: [['dark']],
} satisfies Record<Device, [colorScheme: 'light' | 'dark', rules?: readonly string[]][]>;

for (const [device, looks] of Object.entries(THEMES_AND_DEVICES) as [
  Device,
  ['light' | 'dark', (readonly string[])?][],
][])
  test(
    `every view and dialog passes the accessibility checks: ${device}`,
    browserTest(async (harness, prepared) => {
      const context = await harness.signIn(await harness.newContext(device, { reducedMotion: 'reduce' }));
      const page = await harness.openPage('/', context);
      const found: string[] = [];
      for (const [name, path, act] of steps(prepared)) {
        // On a phone the home view is a list, so each step starts on a fresh page.
        await page.goto(harness.origin + path);
        await act(page);
        for (const [colorScheme, rules] of looks) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await findViolations(page, rules)).map((finding) => `${name}, ${colorScheme}: ${finding}`));
        }
      }
      expect(found).toEqual([]);
    }),
  );

test(
  'the sign-in page passes the accessibility checks',
  browserTest(async (harness) => {
    for (const device of ['desktop', 'phone'] satisfies Device[])
      for (const colorScheme of ['light', 'dark'] as const) {
        const page = await harness.openPage('/', await harness.newContext(device, { colorScheme }));
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('alert').waitFor();
        expect(await findViolations(page)).toEqual([]);
      }
  }),
);
