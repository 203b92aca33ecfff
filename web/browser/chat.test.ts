/** Saying something, and hearing the answer. */

import { expect, test } from 'vitest';
import { shared } from './support/harness-tests.ts';
import { address } from './support/locations.ts';

const staged = shared();

const ANSWER = 'Hello from the scripted model. You said:';

test(
  'a message is sent with the button and answered',
  staged(async (stage) => {
    const { uri } = await (await stage.client()).session();
    const page = await stage.open(address(uri));
    await page.getByRole('textbox', { name: 'Message' }).fill('hi there');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText(`${ANSWER} hi there`).waitFor();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('');
  }),
);

test(
  'two tabs and a phone show the same chat',
  staged(async (stage) => {
    const { uri } = await (await stage.client()).session();
    const first = await stage.open(address(uri));
    const second = await stage.open(address(uri), first.context());
    const phone = await stage.open(address(uri), 'phone');
    const words = ['from the first tab', 'from the second tab', 'from the phone'];
    for (const [at, page] of [first, second, phone].entries()) {
      await page.getByRole('textbox', { name: 'Message' }).fill(words[at] ?? '');
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      for (const other of [first, second, phone]) await other.getByText(`${ANSWER} ${words[at]}`).waitFor();
    }
  }),
);

test(
  'a page that is loaded again in the middle of an answer shows all of it',
  staged(async (stage) => {
    const { uri, chat } = await (await stage.client()).session();
    const page = await stage.open(address(uri));
    await chat.send({ text: '!pace 10\n!deltas 300\n!say That was all.' });
    await page.getByText(/1 2 3 4 5/).waitFor();
    await page.reload();
    await page.getByText('That was all.').waitFor();
    await page.getByText(/1 2 3 4 5 .* 299 300/s).waitFor();
  }),
);
