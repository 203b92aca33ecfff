/** Creating a session. */

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { hasEndedTurns } from './support/second-client.ts';

const browserTest = sharedHarness(async (harness) => {
  const home = harness.host.path('home');
  for (const folder of ['orchard/trees', 'orchid', 'lighthouse']) mkdirSync(join(home, folder), { recursive: true });
  return { home, client: await harness.connectClient() };
});

test(
  'folder, model and mode can be chosen by keyboard and apply to the session',
  browserTest(async (harness, { home, client }) => {
    const page = await harness.openPage('/');
    const keys = page.keyboard;
    await page.getByRole('button', { name: 'Start your first session' }).waitFor();
    await keys.press('Control+Shift+O');
    const message = page.getByRole('textbox', { name: 'First message' });
    await expect.poll(() => message.evaluate((field) => field === document.activeElement)).toBe(true);
    const file = join(home, 'orchard/trees/apple.txt');
    await keys.insertText(`!tool Write {"file_path":${JSON.stringify(file)},"content":"Boskoop"}\n!say Planted.`);

    // Typing filters folders, Tab completes the first, arrows select another.
    await page.getByRole('button', { name: 'Folder: ~' }).waitFor();
    await keys.press('Tab');
    await keys.press('Enter');
    const picker = page.getByRole('dialog', { name: 'Choose a folder' });
    const path = picker.getByRole('combobox', { name: 'Folder path' });
    await expect.poll(() => path.evaluate((field) => field === document.activeElement)).toBe(true);
    await keys.type('orc');
    await picker.getByRole('option', { name: 'lighthouse' }).waitFor({ state: 'hidden' });
    await expect
      .poll(() => picker.getByRole('option').allTextContents())
      .toEqual([' orchard ', ' orchid '].map((text) => expect.stringContaining(text.trim())));
    await keys.press('Tab');
    await picker.getByRole('option', { name: 'trees' }).waitFor();
    await expect.poll(() => path.inputValue()).toBe('~/orchard/');
    await keys.press('ArrowDown');
    await keys.press('ArrowDown');
    await picker.getByRole('option', { name: 'trees', selected: true }).waitFor();
    await keys.press('Enter');
    await expect.poll(() => path.inputValue()).toBe('~/orchard/trees/');
    await keys.press('Enter');
    await picker.waitFor({ state: 'hidden' });
    const folder = page.getByRole('button', { name: 'Folder: ~/orchard/trees' });
    await folder.waitFor();

    // The focus and the typed text are retained.
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('form') !== null)).toBe(true);
    await expect.poll(() => message.inputValue()).toContain('Planted.');
    const reach = async (name: string) => {
      const there = page.getByRole('combobox', { name }).or(page.getByRole('button', { name, exact: true }));
      for (let at = 0; at < 12; at++) {
        if (await there.evaluate((control) => control === document.activeElement)) return;
        await keys.press('Tab');
      }
      throw new Error(`Tab does not lead to ${name}.`);
    };
    await reach('Model');
    await keys.type('Claude O');
    await reach('Permission mode');
    await keys.type('Accept');
    await expect.poll(() => page.getByRole('combobox', { name: 'Model' }).inputValue()).toBe('claude-opus-4-5');
    await reach('Start');
    await keys.press('Enter');

    // The file needs no permission.
    await page.getByText('Planted.', { exact: true }).waitFor();
    expect(existsSync(file)).toBe(true);
    const uri = decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1) ?? '');
    const { session, chat } = await client.openSession(uri);
    const { state } = await until(chat.view, hasEndedTurns(1));
    expect(state?.turns[0]?.usage?.model).toBe('claude-opus-4-5');
    expect(session.view.value.state?.workingDirectories).toEqual([pathToFileURL(join(home, 'orchard/trees')).href]);
    expect(session.view.value.state?.config?.values).toMatchObject({ permissionMode: 'acceptEdits' });
    await page.getByRole('button', { name: 'Permission mode: Accept edits' }).waitFor();
  }),
);

test(
  'another mode and model change the permission request',
  browserTest(async (harness, { client }) => {
    const page = await harness.openPage(`/new?directory=${encodeURIComponent(harness.host.work)}`);
    await page.getByRole('combobox', { name: 'Model' }).selectOption('claude-haiku-4-5');
    await page.getByRole('textbox', { name: 'First message' }).fill('!tool Write {"file_path":"a.txt","content":"a"}');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page
      .getByRole('button', { name: /^(Yes|Allow)/ })
      .first()
      .click();
    await page.getByText('Done.', { exact: true }).waitFor();
    const uri = decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1) ?? '');
    const { chat } = await client.openSession(uri);
    const { state } = await until(chat.view, hasEndedTurns(1));
    expect(state?.turns[0]?.usage?.model).toBe('claude-haiku-4-5');
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
  }),
);

test(
  'typed text survives navigation, and a folder can be picked from the list',
  browserTest(async (harness, { client, home }) => {
    await client
      .createSession(pathToFileURL(join(home, 'lighthouse')).href)
      .then(({ chat }) => chat.send({ text: 'hello' }));
    const page = await harness.openPage('/new');
    await page.getByRole('textbox', { name: 'First message' }).fill('half a thought');
    await page.reload();
    await expect.poll(() => page.getByRole('textbox', { name: 'First message' }).inputValue()).toBe('half a thought');
    await page.getByRole('button', { name: 'New session in lighthouse' }).click();
    await page.getByRole('button', { name: 'Folder: ~/lighthouse' }).waitFor();
    await expect.poll(() => page.getByRole('textbox', { name: 'First message' }).inputValue()).toBe('half a thought');
    // A message that waits for files is saved as a draft.
    await page.getByRole('button', { name: 'Add files' }).click();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('half a thought');
  }),
);
