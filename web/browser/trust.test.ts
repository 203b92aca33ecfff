/** Workspace trust on the real host: request, badge, list and decisions. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import type { BrowserHarness } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText } from './support/model-script.ts';
import { hasEndedTurns, type OpenedSession, type SecondClient } from './support/second-client.ts';

const browserTest = sharedHarness();
const QUESTION = 'Do you trust the authors of the files in this folder?';

/** A folder with foreign configuration. Names are unique, so that decisions do not interfere. */
function folder(harness: BrowserHarness, name: string): string {
  const directory = join(harness.host.path('work'), name);
  mkdirSync(join(directory, '.claude', 'commands'), { recursive: true });
  addConfiguration(directory, { APP_MODE: 'one' });
  writeFileSync(join(directory, '.claude', 'commands', 'deploy\u202eyolp.md'), 'Say hello.\n');
  return directory;
}

function addConfiguration(directory: string, env: Readonly<Record<string, string>>): void {
  const settings = { env, permissions: { allow: ['Bash(make:*)'] } };
  writeFileSync(join(directory, '.claude', 'settings.json'), JSON.stringify(settings));
}

async function createSessionIn(client: SecondClient, directory: string): Promise<OpenedSession> {
  return client.createSession(pathToFileURL(directory).href);
}

async function badgeOf(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Restricted/ }).waitFor();
}

test(
  'the first message waits for a trust decision that lists the folder configuration',
  browserTest(async (harness) => {
    const directory = folder(harness, 'asked');
    const { uri, chat } = await createSessionIn(await harness.connectClient(), directory);
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage(scriptText('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByText('APP_MODE').waitFor();
    await card.getByText('Bash(make:*)').waitFor();
    const text = await card.textContent();
    expect(text).toContain('U+202E');
    expect(text).not.toContain('\u202e');
    expect(await findViolations(page)).toEqual([]);
    // Typing decides nothing.
    await card.focus();
    await page.keyboard.type('y1 ya');
    await card.getByRole('button', { name: 'Trust this folder', exact: true }).click();
    await until(chat.view, hasEndedTurns(1));
    await page.getByText('Trust this folder', { exact: true }).waitFor();
    expect(await page.getByRole('button', { name: /^Restricted/ }).count()).toBe(0);

    // The trusted configuration has changed.
    addConfiguration(directory, { APP_MODE: 'two' });
    await chat.send(scriptMessage(scriptText('Again.')));
    await card.getByText(/changed since you trusted it/).waitFor();
    await badgeOf(page);
    await card.getByRole('button', { name: /^Do not trust/ }).click();
    await until(chat.view, hasEndedTurns(2));
    await badgeOf(page);
  }),
);

test(
  'a restricted session shows a badge that opens the list and the decision',
  browserTest(async (harness) => {
    const { uri, chat } = await createSessionIn(await harness.connectClient(), folder(harness, 'marked'));
    const page = await harness.openPage(sessionPath(uri), 'phone');
    await chat.send(scriptMessage(scriptText('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, hasEndedTurns(1));
    await page.getByRole('button', { name: /^Restricted/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Workspace trust' });
    await dialog.getByRole('heading', { name: 'Permission rules' }).waitFor();
    expect(await dialog.textContent()).toContain('⟨U+202E⟩');
    expect(await findViolations(page)).toEqual([]);
    const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(width).toBeLessThanOrEqual(0);
    await dialog.getByRole('button', { name: 'Trust', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Restricted/ }).waitFor({ state: 'detached' });
  }),
);

test(
  'a configuration that changes during review is shown again instead of trusted',
  browserTest(async (harness) => {
    const directory = folder(harness, 'raced');
    const { uri, chat } = await createSessionIn(await harness.connectClient(), directory);
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage(scriptText('Hello.')));
    await page.getByRole('group', { name: QUESTION }).getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, hasEndedTurns(1));
    await page.getByRole('button', { name: /^Restricted/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Workspace trust' });
    await dialog.getByText('APP_MODE').waitFor();
    addConfiguration(directory, { APP_EVIL: 'yes' });
    await dialog.getByRole('button', { name: 'Trust', exact: true }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByText('APP_EVIL').waitFor();
  }),
);

test(
  'the settings list trust decisions and remove them',
  browserTest(async (harness) => {
    const directory = folder(harness, 'listed');
    const { uri, chat } = await createSessionIn(await harness.connectClient(), directory);
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage(scriptText('Hello.')));
    const card = page.getByRole('group', { name: QUESTION });
    await card.getByRole('button', { name: 'Trust this folder and its subfolders' }).click();
    await until(chat.view, hasEndedTurns(1));
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Settings' }).click();
    const dialog = page.getByRole('dialog', { name: 'Settings' });
    const entry = dialog.getByRole('listitem').filter({ hasText: directory });
    await entry.getByText('Trusted with subfolders').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await entry.getByRole('button', { name: `Remove ${directory}` }).click();
    await entry.waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');

    // The next message asks again.
    await chat.send(scriptMessage(scriptText('Again.')));
    await card.getByRole('button', { name: 'Not now' }).click();
    await until(chat.view, hasEndedTurns(2));
  }),
);
