/** Addresses of the page: each can be opened. */

import { expect, test } from 'vitest';
import { staged } from './support/harness-tests.ts';
import { address, sessions } from './support/locations.ts';

test(
  'a session is opened by its address, and again when the page is loaded again',
  staged(async (stage) => {
    const { uri } = await (await stage.client()).answered('a deep link');
    const page = await stage.open(address(uri));
    await page.getByText('You said: a deep link').waitFor();
    await page.reload();
    await page.getByText('You said: a deep link').waitFor();
    expect(new URL(page.url()).pathname).toBe(address(uri));
  }),
);

test(
  'a session is opened from the list, and the way back leads home',
  staged(async (stage) => {
    const client = await stage.client();
    const { uri, session } = await client.answered('from the list');
    await session.rename('A session with a name');
    const page = await stage.open('/');
    await sessions(page).getByText('A session with a name').click();
    await page.getByText('You said: from the list').waitFor();
    expect(new URL(page.url()).pathname).toBe(address(uri));
    await page.goBack();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/');
    await page.getByText('You said: from the list').waitFor({ state: 'hidden' });
  }),
);

test(
  'an address that nobody knows leads home',
  staged(async (stage) => {
    const page = await stage.open('/nothing/of/this/kind');
    await sessions(page).waitFor();
    await page
      .getByRole('link', { name: /new/i })
      .or(page.getByRole('button', { name: /new/i }))
      .first()
      .waitFor();
  }),
);

test(
  'a session that does not exist is said to be missing',
  staged(async (stage) => {
    const page = await stage.open(address('claude:/00000000-0000-4000-8000-00000000dead'));
    await page.getByRole('alert').first().waitFor();
  }),
);
