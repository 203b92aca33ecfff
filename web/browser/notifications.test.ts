/** Somebody who does something else is told when a session waits for them. */

import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import type { Stage } from './support/harness.ts';
import { shared } from './support/harness-tests.ts';
import { address, sessions } from './support/locations.ts';
import type { Client, Opened } from './support/second-client.ts';

const play = shared((stage) => stage.client());

interface Told {
  readonly title: string;
  readonly body: string;
  readonly tag: string;
  isClosed: boolean;
  click(): void;
}

/** A page in a browser that allows notifications and keeps them where a test can read them. */
async function listening(stage: Stage, path: string): Promise<Page> {
  const context = await stage.signIn(await stage.context());
  await context.addInitScript(() => {
    const told: unknown[] = [];
    class Kept extends EventTarget {
      static permission = 'default';
      static async requestPermission() {
        Kept.permission = 'granted';
        return 'granted';
      }
      readonly title: string;
      readonly body: string;
      readonly tag: string;
      isClosed = false;
      onclick?: () => void;
      onclose?: () => void;
      constructor(title: string, { body = '', tag = '' }: NotificationOptions = {}) {
        super();
        this.title = title;
        this.body = body;
        this.tag = tag;
        // Before it is allowed nothing is shown.
        if (Kept.permission === 'granted') told.push(this);
      }
      click() {
        this.onclick?.();
      }
      close() {
        this.isClosed = true;
        this.onclose?.();
      }
    }
    Object.assign(window, { Notification: Kept, told });
  });
  const page = await stage.open(path, context);
  // Browsers ask only for what a person has pressed.
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Settings' }).click();
  const wanted = page.getByRole('switch', { name: 'Notifications' });
  await wanted.check();
  await page.getByRole('dialog', { name: 'Settings' }).getByRole('button', { name: 'Close' }).click();
  return page;
}

function told(page: Page): Promise<Pick<Told, 'title' | 'body' | 'isClosed'>[]> {
  return page.evaluate(() =>
    (window as unknown as { told: Told[] }).told.map(({ title, body, isClosed }) => ({ title, body, isClosed })),
  );
}

/** A session in which a tool waits to be allowed. */
async function asks(client: Client, title: string): Promise<Opened> {
  const opened = await client.session();
  // A file of its own: nobody asks about one that cannot be written.
  const input = { file_path: `${randomUUID()}.txt`, content: title };
  await opened.chat.send({ text: `!wait 300\n!tool Write ${JSON.stringify(input)}\n!say It is written.` });
  await opened.session.rename(title);
  return opened;
}

test(
  'a session that waits marks the title and the icon, notifies, and a click leads there',
  play(async (stage, client) => {
    const page = await listening(stage, '/');
    await sessions(page).waitFor();
    expect(await page.title()).toBe('Hostler');
    const icon = () => page.locator('link[rel=icon]').getAttribute('href');
    const before = await icon();

    const { uri } = await asks(client, 'May I write?');
    await expect.poll(() => page.title()).toBe('(1) Hostler');
    expect(await icon()).not.toBe(before);
    await expect.poll(() => told(page)).toEqual([{ title: 'May I write?', body: 'Waits for you.', isClosed: false }]);

    await page.evaluate(() => (window as unknown as { told: Told[] }).told[0]?.click());
    const yes = page.getByRole('button', { name: /^(Yes|Allow)/ }).first();
    await yes.waitFor();
    expect(new URL(page.url()).pathname).toBe(address(uri));
    expect(await page.title()).toBe('(1) May I write? · Hostler');
    expect(await told(page)).toMatchObject([{ isClosed: true }]);
    await yes.click();
    await page.getByText('It is written.', { exact: true }).waitFor();
    await expect.poll(() => page.title()).toBe('May I write? · Hostler');
    expect(await icon()).toBe(before);
    // Whoever looks at it needs no notification that it is done.
    expect(await told(page)).toHaveLength(1);
  }),
);

test(
  'what is answered elsewhere is not asked any more, and what ends elsewhere is told',
  play(async (stage, client) => {
    const page = await listening(stage, '/new');
    const { chat } = await asks(client, 'May I, too?');
    await expect.poll(() => page.title()).toBe('(1) New session · Hostler');
    await expect.poll(() => told(page)).toMatchObject([{ body: 'Waits for you.', isClosed: false }]);
    const { state } = await until(
      chat.view,
      ({ state }) => state?.activeTurn?.responseParts.at(-1)?.kind === 'toolCall',
    );
    const part = state?.activeTurn?.responseParts.at(-1);
    if (part?.kind !== 'toolCall') throw new Error('Nothing waits.');
    await chat.confirm(state?.activeTurn?.id ?? '', part.toolCall.toolCallId, { approved: true });
    await expect.poll(() => page.title()).toBe('New session · Hostler');
    await expect
      .poll(() => told(page))
      .toEqual([
        { title: 'May I, too?', body: 'Waits for you.', isClosed: true },
        { title: 'May I, too?', body: 'Is done.', isClosed: false },
      ]);
  }),
);

test(
  'nobody is notified who did not ask for it',
  play(async (stage, client) => {
    const page = await listening(stage, '/');
    await page.keyboard.press('Control+,');
    const wanted = page.getByRole('switch', { name: 'Notifications' });
    await wanted.uncheck();
    await page.keyboard.press('Escape');
    await asks(client, 'Nobody hears this');
    await expect.poll(() => page.title()).toBe('(1) Hostler');
    expect(await told(page)).toEqual([]);
    await page.keyboard.press('Control+J');
    await page.getByRole('feed', { name: 'Turns' }).getByRole('button', { name: 'Deny', exact: true }).click();
    await expect.poll(() => page.title()).toBe('Nobody hears this · Hostler');
  }),
);

test(
  'a phone that leaves notifications to workers says so in the settings',
  play(async (stage) => {
    const context = await stage.signIn(await stage.context('phone'));
    await context.addInitScript(() => {
      class Refusing {
        static permission = 'default';
        constructor() {
          throw new TypeError('Illegal constructor.');
        }
      }
      Object.assign(window, { Notification: Refusing });
    });
    const page = await stage.open('/', context);
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Settings' }).click();
    await page.getByText('This browser lets no page notify you').waitFor();
    await expect.poll(() => page.getByRole('switch', { name: 'Notifications' }).isDisabled()).toBe(true);
  }),
);

test(
  'a tab says nothing about a session that another tab shows',
  play(async (stage, client) => {
    const page = await listening(stage, '/');
    const { uri } = await asks(client, 'Seen elsewhere');
    const other = await stage.open(address(uri), page.context());
    await other.bringToFront();
    await other
      .getByRole('button', { name: /^(Yes|Allow)/ })
      .first()
      .click();
    await other.getByText('It is written.', { exact: true }).waitFor();
    // What comes later is told by the same way: when it is there, the first would be, too.
    await asks(client, 'Seen nowhere');
    await expect.poll(async () => (await told(page)).map(({ title }) => title)).toContain('Seen nowhere');
    expect((await told(page)).filter(({ title, body }) => title === 'Seen elsewhere' && body === 'Is done.')).toEqual(
      [],
    );
  }),
);
