/** Addresses of the page: each can be opened, and everybody can use what it shows. */

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { address, sessions } from './support/address.ts';
import { axe } from './support/axe.ts';
import type { Device, Stage } from './support/stage.ts';
import { staged } from './support/staged.ts';

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

interface View {
  readonly path: string;
  /** What is there when it can be looked at. */
  readonly shows: (page: Page) => Locator;
}

const VIEWS: Record<string, (stage: Stage) => Promise<View>> = {
  home: async () => ({ path: '/', shows: (page) => sessions(page) }),
  new: async () => ({ path: '/new', shows: (page) => page.getByRole('heading', { name: /new session/i }) }),
  search: async () => ({ path: '/search?q=horses', shows: (page) => page.getByRole('heading', { name: /search/i }) }),
  session: async (stage) => {
    const { uri } = await (await stage.client()).answered(
      WORDS,
      '!tool Bash {"command":"echo hi"}\n!say Done with it.',
    );
    return { path: address(uri), shows: (page) => page.getByText('Done with it.', { exact: true }) };
  },
};

const WORDS =
  '!think Both are wanted.\n' +
  '!say # A title\\n\\nSome *words*, `code` and a list:\\n\\n- one\\n- two\\n\\n```rust\\nfn main() {}\\n```';

for (const device of ['desktop', 'phone'] satisfies Device[]) {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [name, prepare] of Object.entries(VIEWS)) {
      test(
        `${name} is accessible: ${device}, ${colorScheme}`,
        staged(async (stage) => {
          const { path, shows } = await prepare(stage);
          const page = await stage.open(path, await stage.signIn(await stage.context(device, { colorScheme })));
          await shows(page).waitFor();
          expect(await axe(page)).toEqual([]);
        }),
      );
    }
  }
}
