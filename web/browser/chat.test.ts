/** Sending a message and receiving the answer. */

import { expect, test } from 'vitest';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';

const browserTest = sharedHarness();

const ANSWER = 'Hello from the scripted model. You said:';

test(
  'the send button sends a message and the agent answers',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await page.getByRole('textbox', { name: 'Message' }).fill('hi there');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText(`${ANSWER} hi there`).waitFor();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('');
  }),
);

test(
  'two tabs and a phone show the same chat',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const first = await harness.openPage(sessionPath(uri));
    const second = await harness.openPage(sessionPath(uri), first.context());
    const phone = await harness.openPage(sessionPath(uri), 'phone');
    const messages = ['from the first tab', 'from the second tab', 'from the phone'];
    for (const [at, page] of [first, second, phone].entries()) {
      await page.getByRole('textbox', { name: 'Message' }).fill(messages[at] ?? '');
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      for (const other of [first, second, phone]) await other.getByText(`${ANSWER} ${messages[at]}`).waitFor();
    }
  }),
);

test(
  'reloading during an answer shows the whole answer',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send({ text: '!pace 10\n!deltas 300\n!say That was all.' });
    await page.getByText(/1 2 3 4 5/).waitFor();
    await page.reload();
    await page.getByText('That was all.').waitFor();
    await page.getByText(/1 2 3 4 5 .* 299 300/s).waitFor();
  }),
);
