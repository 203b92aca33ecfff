/** URLs of the page. */

import { expect, test } from 'vitest';
import { withHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';

test(
  'a session opens by its URL and again after a reload',
  withHarness(async (harness) => {
    const { uri } = await (await harness.connectClient()).createAnsweredSession('a deep link');
    const page = await harness.openPage(sessionPath(uri));
    await page.getByText('You said: a deep link').waitFor();
    await page.reload();
    await page.getByText('You said: a deep link').waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
  }),
);

test(
  'a session opens from the list, and Back returns home',
  withHarness(async (harness) => {
    const client = await harness.connectClient();
    const { uri, session } = await client.createAnsweredSession('from the list');
    await session.rename('A session with a name');
    const page = await harness.openPage('/');
    await sessionsPane(page).getByText('A session with a name').click();
    await page.getByText('You said: from the list').waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
    await page.goBack();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/');
    await page.getByText('You said: from the list').waitFor({ state: 'hidden' });
  }),
);

test(
  'an unknown URL opens the home view',
  withHarness(async (harness) => {
    const page = await harness.openPage('/nothing/of/this/kind');
    await sessionsPane(page).waitFor();
    await page
      .getByRole('link', { name: /new/i })
      .or(page.getByRole('button', { name: /new/i }))
      .first()
      .waitFor();
  }),
);

test(
  'a session that does not exist shows an error',
  withHarness(async (harness) => {
    const page = await harness.openPage(sessionPath('claude:/00000000-0000-4000-8000-00000000dead'));
    await page.getByRole('alert').first().waitFor();
  }),
);
