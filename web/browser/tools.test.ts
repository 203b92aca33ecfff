/** Tool calls: display, confirmation and input editing. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import type { BrowserHarness, Device } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import { hasEndedTurns, type OpenedSession } from './support/second-client.ts';

const browserTest = sharedHarness();

/** Opens a page on a new session. */
async function begin(
  harness: BrowserHarness,
  device: Device = 'desktop',
): Promise<OpenedSession & { page: Page; file: (name: string) => string }> {
  const opened = await (await harness.connectClient()).createSession();
  const page = await harness.openPage(sessionPath(opened.uri), device);
  return { ...opened, page, file: (name) => join(harness.host.path('work'), name) };
}

/** The confirmation card of a tool. */
function card(page: Page, name: string): Locator {
  return page.getByRole('group', { name: `Allow ${name}?` });
}

test(
  'a command waits, is allowed by a key, shows progress, and then its output',
  browserTest(async (harness) => {
    const { page, chat, file } = await begin(harness);
    const command = `echo from the command; until [ -e ${file('go')} ]; do sleep 0.05; done`;
    await chat.send(
      scriptMessage(scriptToolCall('Bash', { command, description: 'Waits for a file' }), scriptText('It has run.')),
    );
    await card(page, 'Bash').waitFor();
    expect(await findViolations(page)).toEqual([]);
    // Typing a message does not answer the card.
    await page.getByRole('textbox', { name: 'Message' }).pressSequentially('yes');
    await card(page, 'Bash').focus();
    await page.keyboard.press('1');

    const conversation = page.getByRole('region', { name: 'Conversation' });
    await conversation.getByRole('button', { name: /echo from the command.*running/ }).waitFor();
    await expect.poll(() => card(page, 'Bash').count()).toBe(0);
    writeFileSync(file('go'), '');
    await page.getByText('It has run.', { exact: true }).waitFor();
    const line = conversation.getByRole('button', { name: /^Ran echo from the command/ });
    expect(await line.getAttribute('aria-expanded')).toBe('false');
    await line.click();
    await page.getByRole('group', { name: 'Code in sh' }).getByText('until [ -e').waitFor();
    await page.getByRole('group', { name: 'Output' }).getByText('from the command').waitFor();
  }),
);

test(
  'a file edit shows a line diff before and after it is applied',
  browserTest(async (harness) => {
    const { page, chat, file } = await begin(harness);
    const path = file('poem.txt');
    writeFileSync(path, 'roses are red\nviolets are green\nsugar is sweet\n');
    const edit = { file_path: path, old_string: 'green', new_string: 'blue' };
    await chat.send(
      scriptMessage(
        scriptToolCall('Read', { file_path: path }),
        scriptText('Read.'),
        scriptToolCall('Edit', edit),
        scriptText('Mended.'),
      ),
    );
    const changes = page.getByRole('group', { name: 'Changes in poem.txt' });
    await changes.getByRole('row', { name: '+ violets are blue' }).waitFor();
    await changes.getByRole('row', { name: '− violets are green' }).waitFor();
    expect(readFileSync(path, 'utf8')).toContain('green');
    // The card grew while its file loaded, and the view is still at the end.
    await expect.poll(() => page.getByRole('button', { name: 'Jump to latest' }).count()).toBe(0);

    await card(page, 'Edit').getByRole('button', { name: 'Allow once' }).click();
    await page.getByText('Mended.', { exact: true }).waitFor();
    expect(readFileSync(path, 'utf8')).toBe('roses are red\nviolets are blue\nsugar is sweet\n');
    await page.getByRole('button', { name: /^Edited poem.txt.*\+1 −1/ }).click();
    await changes.getByRole('row', { name: '+ violets are blue' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'on a phone a command is denied, and another is denied with a message for the agent',
  browserTest(async (harness) => {
    const { page, chat, file } = await begin(harness, 'phone');
    const touch = (name: string) => scriptToolCall('Bash', { command: `touch ${file(name)}` });
    await chat.send(scriptMessage(touch('one'), scriptText('First.'), touch('two'), scriptText('Second.')));
    await card(page, 'Bash').getByRole('button', { name: 'Deny', exact: true }).click();
    const first = page.getByRole('button', { name: /touch \S*one.*denied/ });
    await first.waitFor();

    await card(page, 'Bash').getByRole('button', { name: 'Deny with a message…' }).click();
    const feedback = page.getByRole('textbox', { name: 'What should the agent do instead?' });
    // Going back retains the text.
    await feedback.fill('Use a broom');
    await feedback.press('Escape');
    await card(page, 'Bash').getByRole('button', { name: 'Deny with a message…' }).click();
    await expect.poll(() => feedback.inputValue()).toBe('Use a broom');
    await page.getByRole('button', { name: 'Deny and send' }).click();
    await page.getByText('Second.', { exact: true }).waitFor();
    const second = page.getByRole('button', { name: /touch \S*two.*denied/ });
    await second.click();
    await page
      .getByText(/Use a broom/)
      .first()
      .waitFor();
    expect(existsSync(file('one')) || existsSync(file('two'))).toBe(false);
  }),
);

test(
  'a command runs with its edited input',
  browserTest(async (harness) => {
    const { page, chat, file } = await begin(harness);
    const command = `touch ${file('as-asked')}`;
    await chat.send(
      scriptMessage(scriptToolCall('Bash', { command, description: 'Makes a file' }), scriptText('Made.')),
    );
    await card(page, 'Bash').getByRole('button', { name: 'Edit input' }).click();
    const field = page.getByRole('textbox', { name: 'Command' });
    await expect.poll(() => field.inputValue()).toBe(command);
    await field.fill(' ');
    await page.getByRole('button', { name: 'Allow with this input' }).click();
    await page.getByText('Enter a command.').waitFor();
    await field.fill(`touch ${file('as-edited')}`);
    await field.press('Control+Enter');
    await page.getByText('Made.', { exact: true }).waitFor();
    expect([existsSync(file('as-asked')), existsSync(file('as-edited'))]).toEqual([false, true]);
    await page.getByRole('button', { name: /^Ran touch/ }).click();
    await page.getByRole('group', { name: 'Code in sh' }).getByText('as-edited').waitFor();

    // Other input is edited as JSON. A message that arrives before the turn ends would be refused.
    await until(chat.view, hasEndedTurns(1));
    const write = { file_path: file('note.txt'), content: 'as asked' };
    await chat.send(scriptMessage(scriptToolCall('Write', write), scriptText('Noted.')));
    await card(page, 'Write').getByRole('button', { name: 'Edit input' }).click();
    const json = page.getByRole('textbox', { name: 'Input (JSON)' });
    await json.fill('{ "content": ');
    await json.press('Control+Enter');
    await page.getByText('Invalid JSON').waitFor();
    await json.fill(JSON.stringify({ ...write, content: 'as edited' }));
    await json.press('Control+Enter');
    await page.getByText('Noted.', { exact: true }).waitFor();
    expect(readFileSync(file('note.txt'), 'utf8')).toBe('as edited');
  }),
);

test(
  'every option that the host offers is shown and works',
  browserTest(async (harness) => {
    const { page, chat, file } = await begin(harness);
    const make = (name: string) => scriptToolCall('Bash', { command: `touch ${file(name)}` });
    const state = () => chat.view.value.state?.activeTurn?.responseParts.at(-1);
    await chat.send(scriptMessage(make('asked'), scriptText('Now again.'), make('asked'), scriptText('And again.')));
    await card(page, 'Bash').waitFor();
    const part = state();
    const options = part?.kind === 'toolCall' && 'options' in part.toolCall ? (part.toolCall.options ?? []) : [];
    expect(options.length).toBeGreaterThanOrEqual(4);
    const displayed = (await card(page, 'Bash').getByRole('button').allTextContents()).map((text) => text.trim());
    // The tooltip explains the option with a message.
    for (const { label } of options.filter(({ id }) => id !== 'deny-with-feedback'))
      expect(displayed.some((text) => text.includes(label.replaceAll('`', '')))).toBe(true);
    expect(displayed.some((text) => text.startsWith('Deny with a message…'))).toBe(true);

    // An approval for the session covers the second call.
    await card(page, 'Bash')
      .getByRole('button', { name: /^Allow .* in this session$/ })
      .click();
    await page.getByText('And again.', { exact: true }).waitFor();
    expect(existsSync(file('asked'))).toBe(true);
  }),
);
