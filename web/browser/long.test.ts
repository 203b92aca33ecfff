/** A chat that is too long to be on the page at once. */

import { expect, test } from 'vitest';
import { address } from './support/address.ts';
import { past } from './support/past.ts';
import { staged } from './support/staged.ts';

test(
  'a chat of 5 000 turns opens at its end, and the page holds few of them',
  staged(async (stage) => {
    const client = await stage.client();
    const page = await stage.open(address(await client.listed(past(stage.hostler, 5_000))));
    await page.getByText('answer 5000:').waitFor();
    expect(await page.getByText(/answer \d+:/).count()).toBeLessThan(200);
    await page.getByRole('textbox', { name: 'Message' }).fill('and then?');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: and then?').waitFor();
  }),
);
