/** One session in several pages: two tabs and a phone. */

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { Uri } from '../src/ahp/index.ts';
import type { BrowserHarness } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';

const browserTest = sharedHarness((harness) => harness.connectClient());

async function openThreePages(harness: BrowserHarness, uri: Uri): Promise<readonly [Page, Page, Page]> {
  const first = await harness.openPage(sessionPath(uri));
  const second = await harness.openPage(sessionPath(uri), first.context());
  return [first, second, await harness.openPage(sessionPath(uri), 'phone')];
}

function field(page: Page) {
  return page.getByRole('textbox', { name: 'Message' });
}

function queue(page: Page): Promise<string[]> {
  return page.getByRole('region', { name: 'Queue' }).getByRole('listitem').locator('p').allTextContents();
}

test(
  'a draft appears in other clients until it is sent',
  browserTest(async (harness, client) => {
    const { uri } = await client.createSession();
    const [first, second, phone] = await openThreePages(harness, uri);
    await field(first).fill('Started on the laptop,');
    for (const other of [second, phone])
      await expect.poll(() => field(other).inputValue()).toBe('Started on the laptop,');
    await field(phone).fill('Started on the laptop, sent from the phone.');
    for (const other of [first, second])
      await expect.poll(() => field(other).inputValue()).toBe('Started on the laptop, sent from the phone.');
    await phone.getByRole('button', { name: 'Send', exact: true }).click();
    for (const page of [first, second, phone]) {
      await page.getByText('You said: Started on the laptop, sent from the phone.').waitFor();
      await expect.poll(() => field(page).inputValue()).toBe('');
    }
  }),
);

test(
  'the queue is identical in all clients after adding, moving and removing',
  browserTest(async (harness, client) => {
    const { uri, chat } = await client.createSession();
    const pages = await openThreePages(harness, uri);
    const [first, second, phone] = pages;
    await chat.send({ text: '!say I am at it.\n!hang' });
    for (const page of pages) await page.getByText('I am at it.', { exact: true }).waitFor();
    const write = async (page: Page, text: string) => {
      await field(page).fill(text);
      await page.getByRole('button', { name: 'Queue', exact: true }).click();
      for (const other of pages) await expect.poll(() => queue(other)).toContain(text);
    };
    await write(first, 'from the first');
    await write(phone, 'from the phone');
    await second.getByRole('button', { name: 'Move: from the phone', exact: true }).focus();
    await second.keyboard.press('Alt+ArrowUp');
    for (const page of pages) await expect.poll(() => queue(page)).toEqual(['from the phone', 'from the first']);
    await first.getByRole('button', { name: 'Remove: from the phone' }).click();
    for (const page of pages) await expect.poll(() => queue(page)).toEqual(['from the first']);

    // Stopping applies to all clients, and the queue pauses.
    await phone.getByRole('button', { name: 'Stop', exact: true }).click();
    for (const page of pages) await page.getByText('The queue is paused.').waitFor();
    await second.getByRole('button', { name: 'Resume' }).click();
    for (const page of pages) await page.getByText('You said: from the first').waitFor();
  }),
);

test(
  'a request that one client allows disappears in the others',
  browserTest(async (harness, client) => {
    const { uri, chat } = await client.createSession();
    const pages = await openThreePages(harness, uri);
    await chat.send({ text: '!tool Write {"file_path":"b.txt","content":"b"}\n!say It is written.' });
    const card = (page: Page) =>
      page
        .getByRole('group', { name: /Write|b\.txt/ })
        .getByRole('button', { name: /^(Yes|Allow)/ })
        .first();
    for (const page of pages) await card(page).waitFor();
    await card(pages[2]).click();
    for (const page of pages) {
      await page.getByText('It is written.', { exact: true }).waitFor();
      await expect.poll(() => card(page).count()).toBe(0);
    }
  }),
);
