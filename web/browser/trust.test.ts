/** A folder's own configuration: the question, the mark, the list and the decisions, on the real host. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { axe } from './support/axe.ts';
import type { Stage } from './support/harness.ts';
import { shared } from './support/harness-tests.ts';
import { address } from './support/locations.ts';
import { say, script } from './support/model-script.ts';
import { type Client, ended, type Opened } from './support/second-client.ts';

const staged = shared();
const QUESTION = 'Do you trust the authors of the files in this folder?';

/** A folder that somebody else wrote. Each has a name of its own, so that decisions do not meet. */
function folder(stage: Stage, name: string): string {
  const directory = join(stage.hostler.path('work'), name);
  mkdirSync(join(directory, '.claude', 'commands'), { recursive: true });
  bring(directory, { APP_MODE: 'one' });
  writeFileSync(join(directory, '.claude', 'commands', 'deploy\u202eyolp.md'), 'Say hello.\n');
  return directory;
}

function bring(directory: string, env: Readonly<Record<string, string>>): void {
  const settings = { env, permissions: { allow: ['Bash(make:*)'] } };
  writeFileSync(join(directory, '.claude', 'settings.json'), JSON.stringify(settings));
}

async function enter(client: Client, directory: string): Promise<Opened> {
  return client.session(pathToFileURL(directory).href);
}

async function badgeOf(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Restricted/ }).waitFor();
}

test(
  'the first message waits for a decision, which lists what the folder brings',
  staged(async (stage) => {
    const directory = folder(stage, 'asked');
    const { uri, chat } = await enter(await stage.client(), directory);
    const page = await stage.open(address(uri));
    await chat.send(script(say('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByText('APP_MODE').waitFor();
    await card.getByText('Bash(make:*)').waitFor();
    const text = await card.textContent();
    expect(text).toContain('U+202E');
    expect(text).not.toContain('\u202e');
    expect(await axe(page)).toEqual([]);
    // Typing decides nothing.
    await card.focus();
    await page.keyboard.type('y1 ya');
    await card.getByRole('button', { name: 'Trust this folder', exact: true }).click();
    await until(chat.view, ended(1));
    await page.getByText('Trust this folder', { exact: true }).waitFor();
    expect(await page.getByRole('button', { name: /^Restricted/ }).count()).toBe(0);

    // What was trusted is not what there is now.
    bring(directory, { APP_MODE: 'two' });
    await chat.send(script(say('Again.')));
    await card.getByText(/has changed since you trusted it/).waitFor();
    await badgeOf(page);
    await card.getByRole('button', { name: /^Do not trust/ }).click();
    await until(chat.view, ended(2));
    await badgeOf(page);
  }),
);

test(
  'a session that ignores configuration is marked, and the mark opens list and decision',
  staged(async (stage) => {
    const { uri, chat } = await enter(await stage.client(), folder(stage, 'marked'));
    const page = await stage.open(address(uri), 'phone');
    await chat.send(script(say('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, ended(1));
    await page.getByRole('button', { name: /^Restricted/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Workspace trust' });
    await dialog.getByRole('heading', { name: 'Permission rules' }).waitFor();
    expect(await dialog.textContent()).toContain('⟨U+202E⟩');
    expect(await axe(page)).toEqual([]);
    const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(width).toBeLessThanOrEqual(0);
    await dialog.getByRole('button', { name: 'Trust', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Restricted/ }).waitFor({ state: 'detached' });
  }),
);

test(
  'a configuration that changes while somebody looks at it is shown again instead of trusted',
  staged(async (stage) => {
    const directory = folder(stage, 'raced');
    const { uri, chat } = await enter(await stage.client(), directory);
    const page = await stage.open(address(uri));
    await chat.send(script(say('Hello.')));
    await page.getByRole('group', { name: QUESTION }).getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, ended(1));
    await page.getByRole('button', { name: /^Restricted/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Workspace trust' });
    await dialog.getByText('APP_MODE').waitFor();
    bring(directory, { APP_EVIL: 'yes' });
    await dialog.getByRole('button', { name: 'Trust', exact: true }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByText('APP_EVIL').waitFor();
  }),
);

test(
  'settings list the decisions and remove them',
  staged(async (stage) => {
    const directory = folder(stage, 'listed');
    const { uri, chat } = await enter(await stage.client(), directory);
    const page = await stage.open(address(uri));
    await chat.send(script(say('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByRole('button', { name: 'Trust this folder and its subfolders' }).click();
    await until(chat.view, ended(1));
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Settings' }).click();
    const dialog = page.getByRole('dialog', { name: 'Settings' });
    const entry = dialog.getByRole('listitem').filter({ hasText: directory });
    await entry.getByText('Trusted with its subfolders').waitFor();
    expect(await axe(page)).toEqual([]);
    await entry.getByRole('button', { name: `Remove ${directory}` }).click();
    await entry.waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');

    // The next message asks again.
    await chat.send(script(say('Again.')));
    await card.getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, ended(2));
  }),
);
