/** Queue, steering and stopping while a turn runs. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import type { BrowserHarness } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import { hasEndedTurns, type OpenedSession } from './support/second-client.ts';

const browserTest = sharedHarness();

let gates = 0;

/** A turn whose command runs until the test opens the gate. */
async function startBusyTurn(harness: BrowserHarness): Promise<OpenedSession & { page: Page; open: () => void }> {
  gates += 1;
  const gate = join(harness.host.path('work'), `gate-${gates}`);
  const opened = await (await harness.connectClient()).createSession();
  const page = await harness.openPage(sessionPath(opened.uri));
  const command = `until [ -e ${gate} ]; do sleep 0.05; done`;
  await opened.chat.send(scriptMessage(scriptToolCall('Bash', { command }), scriptText('The gate is open.')));
  const card = page.getByRole('group', { name: 'Allow Bash?' });
  await card.getByRole('button', { name: 'Allow once' }).click();
  await card.waitFor({ state: 'hidden' });
  return { ...opened, page, open: () => writeFileSync(gate, '') };
}

function field(page: Page): Locator {
  return page.getByRole('textbox', { name: 'Message' });
}

function queue(page: Page): Locator {
  return page.getByRole('region', { name: 'Queue' });
}

async function expectQueue(page: Page, ...texts: string[]): Promise<void> {
  await expect.poll(() => queue(page).getByRole('listitem').allInnerTexts()).toEqual(texts);
}

test(
  'queued messages can be edited, moved by key and pointer, removed, and are sent in order',
  browserTest(async (harness) => {
    const { uri, page, chat, open } = await startBusyTurn(harness);
    for (const text of ['first', 'second', 'third', 'fourth']) {
      await field(page).fill(text);
      await field(page).press('Enter');
    }
    await expectQueue(page, 'first', 'second', 'third', 'fourth');
    expect(await findViolations(page)).toEqual([]);

    await queue(page).getByRole('button', { name: 'Edit: second' }).click();
    await queue(page).getByRole('textbox', { name: 'Queued message' }).fill('second, mended');
    await queue(page).getByRole('button', { name: 'Save' }).click();
    await expectQueue(page, 'first', 'second, mended', 'third', 'fourth');

    const handle = (text: string) => queue(page).getByRole('button', { name: `Move: ${text}`, exact: true });
    await handle('third').focus();
    await page.keyboard.press('Alt+ArrowUp');
    await expectQueue(page, 'first', 'third', 'second, mended', 'fourth');
    // The focus follows the item.
    await expect.poll(() => handle('third').evaluate((button) => button === document.activeElement)).toBe(true);
    await page.keyboard.press('Alt+ArrowUp');
    await expectQueue(page, 'third', 'first', 'second, mended', 'fourth');

    const [from, to] = [await handle('fourth').boundingBox(), await handle('third').boundingBox()];
    if (!from || !to) throw new Error('The handles are not on the page.');
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(to.x + to.width / 2, to.y + to.height / 2, { steps: 4 });
    await page.mouse.move(to.x + to.width / 2, to.y - 2, { steps: 2 });
    await page.mouse.up();
    await expectQueue(page, 'fourth', 'third', 'first', 'second, mended');

    await queue(page).getByRole('button', { name: 'Remove: first' }).click();
    await expectQueue(page, 'fourth', 'third', 'second, mended');
    // The arrow key recalls the removed message.
    await field(page).press('ArrowUp');
    await expect.poll(() => field(page).inputValue()).toBe('first');
    await field(page).fill('');

    // Another client sees the same queue.
    const phone = await harness.openPage(sessionPath(uri), 'phone');
    await expectQueue(phone, 'fourth', 'third', 'second, mended');
    expect(await findViolations(phone)).toEqual([]);
    open();
    const { state } = await until(chat.view, hasEndedTurns(4));
    const sentTexts = state?.turns.map(({ message }) => message.text).slice(1);
    expect(sentTexts).toEqual(['fourth', 'third', 'second, mended']);
    for (const one of [page, phone]) await one.getByText('You said: second, mended').waitFor();
  }),
);

test(
  'steering messages are sent from the field and from the queue',
  browserTest(async (harness) => {
    const { page, chat, open } = await startBusyTurn(harness);
    await field(page).fill('turn left');
    await field(page).press('Control+Enter');
    const steering = page.getByRole('region', { name: 'Sending to the running turn' });
    await steering.getByText('turn left').waitFor();
    expect(await findViolations(page)).toEqual([]);
    // Steering messages can be withdrawn until they are delivered.
    await steering.getByRole('button', { name: 'Withdraw' }).click();
    await steering.waitFor({ state: 'hidden' });
    await expect.poll(() => field(page).inputValue()).toBe('turn left');

    await page.getByRole('button', { name: 'More ways to send' }).click();
    await page.getByRole('menuitem', { name: /^Queue/ }).click();
    await queue(page).getByRole('button', { name: 'Send to the running turn: turn left' }).click();
    await steering.getByText('turn left').waitFor();
    await expect.poll(() => queue(page).count()).toBe(0);
    await until(chat.view, ({ state }) => state?.steeringMessage?.message.text === 'turn left');
    open();
    await page.getByText('The gate is open.', { exact: true }).waitFor();
    const { state } = await until(chat.view, hasEndedTurns(2));
    expect(state?.turns.at(-1)?.message.text).toBe('turn left');
    await page.getByRole('article', { name: 'Turn: turn left' }).getByText('The gate is open.').waitFor();
  }),
);

test(
  'the button and Escape stop a turn, and the queue pauses until it is resumed',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const hang = async (text: string) => {
      await chat.send(scriptMessage(scriptText(text), '!hang'));
      await page
        .getByRole('paragraph')
        .filter({ hasText: new RegExp(`^${text}$`) })
        .waitFor();
    };
    await hang('Here.');
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByText('Stopped', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor({ state: 'hidden' });

    await hang('There.');
    await field(page).fill('and then');
    await field(page).press('Enter');
    await expectQueue(page, 'and then');
    await field(page).press('Escape');
    await page.getByText('Press Escape again to stop the turn.').waitFor();
    await field(page).press('Escape');
    await expect.poll(() => page.getByText('Stopped', { exact: true }).count()).toBe(2);
    await page.getByText('The queue is paused.').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('You said: and then').waitFor();
  }),
);

test(
  'a draft with files appears in other pages and survives a reload',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const phone = await harness.openPage(sessionPath(uri), 'phone');
    const [picker] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Attach files' }).click(),
    ]);
    await picker.setFiles({ name: 'list.txt', mimeType: 'text/plain', buffer: Buffer.from('milk') });
    await field(page).fill('half a thought');
    await expect.poll(() => field(phone).inputValue()).toBe('half a thought');
    await phone.getByRole('list', { name: 'Attachments' }).getByText('list.txt').waitFor();

    await field(phone).fill('half a thought, and the rest');
    await expect.poll(() => field(page).inputValue()).toBe('half a thought, and the rest');
    await page.reload();
    await expect.poll(() => field(page).inputValue()).toBe('half a thought, and the rest');
    await page.getByRole('list', { name: 'Attachments' }).getByText('list.txt').waitFor();

    // Text typed during the reload is not lost.
    await field(page).pressSequentially('!');
    await page.reload();
    await expect.poll(() => field(page).inputValue()).toBe('half a thought, and the rest!');

    await field(page).press('Enter');
    await page.getByText('You said: half a thought, and the rest!').waitFor();
    await expect.poll(() => field(phone).inputValue()).toBe('');
    await phone.getByText('You said: half a thought, and the rest!').waitFor();
  }),
);
