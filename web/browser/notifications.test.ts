/** Notifications about sessions in the background. */

import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import type { BrowserHarness } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import type { OpenedSession, SecondClient } from './support/second-client.ts';

const browserTest = sharedHarness((harness) => harness.connectClient());

interface RecordedNotification {
  readonly title: string;
  readonly body: string;
  readonly tag: string;
  isClosed: boolean;
  click(): void;
}

/** A page with a fake Notification class that records notifications. */
async function openWithNotifications(harness: BrowserHarness, path: string): Promise<Page> {
  const context = await harness.signIn(await harness.newContext());
  await context.addInitScript(() => {
    const recorded: unknown[] = [];
    class RecordingNotification extends EventTarget {
      static permission = 'default';
      static async requestPermission() {
        RecordingNotification.permission = 'granted';
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
        // Without permission nothing is shown.
        if (RecordingNotification.permission === 'granted') recorded.push(this);
      }
      click() {
        this.onclick?.();
      }
      close() {
        this.isClosed = true;
        this.onclose?.();
      }
    }
    Object.assign(window, { Notification: RecordingNotification, recordedNotifications: recorded });
  });
  const page = await harness.openPage(path, context);
  // Browsers require a user gesture for the permission prompt.
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Settings' }).click();
  const wanted = page.getByRole('switch', { name: 'Notifications' });
  await wanted.check();
  await page.getByRole('dialog', { name: 'Settings' }).getByRole('button', { name: 'Close' }).click();
  return page;
}

function recordedNotifications(page: Page): Promise<Pick<RecordedNotification, 'title' | 'body' | 'isClosed'>[]> {
  return page.evaluate(() =>
    (window as unknown as { recordedNotifications: RecordedNotification[] }).recordedNotifications.map(
      ({ title, body, isClosed }) => ({
        title,
        body,
        isClosed,
      }),
    ),
  );
}

/** A session with a pending tool confirmation. */
async function createWaitingSession(client: SecondClient, title: string): Promise<OpenedSession> {
  const opened = await client.createSession();
  // A separate file per session, since an unwritable one would not ask.
  const input = { file_path: `${randomUUID()}.txt`, content: title };
  await opened.chat.send({ text: `!wait 300\n!tool Write ${JSON.stringify(input)}\n!say It is written.` });
  await opened.session.rename(title);
  return opened;
}

test(
  'a waiting session marks the title and icon, notifies, and opens on click',
  browserTest(async (harness, client) => {
    const page = await openWithNotifications(harness, '/');
    await sessionsPane(page).waitFor();
    expect(await page.title()).toBe('Hostler');
    const icon = () => page.locator('link[rel=icon]').getAttribute('href');
    const before = await icon();

    const { uri } = await createWaitingSession(client, 'May I write?');
    await expect.poll(() => page.title()).toBe('(1) Hostler');
    expect(await icon()).not.toBe(before);
    await expect
      .poll(() => recordedNotifications(page))
      .toEqual([{ title: 'May I write?', body: 'Waiting for you.', isClosed: false }]);

    await page.evaluate(() =>
      (window as unknown as { recordedNotifications: RecordedNotification[] }).recordedNotifications[0]?.click(),
    );
    const yes = page.getByRole('button', { name: /^(Yes|Allow)/ }).first();
    await yes.waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
    expect(await page.title()).toBe('(1) May I write? · Hostler');
    expect(await recordedNotifications(page)).toMatchObject([{ isClosed: true }]);
    await yes.click();
    await page.getByText('It is written.', { exact: true }).waitFor();
    await expect.poll(() => page.title()).toBe('May I write? · Hostler');
    expect(await icon()).toBe(before);
    // A visible session needs no notification.
    expect(await recordedNotifications(page)).toHaveLength(1);
  }),
);

test(
  'requests answered elsewhere close their notification, and turns finished elsewhere notify',
  browserTest(async (harness, client) => {
    const page = await openWithNotifications(harness, '/new');
    const { chat } = await createWaitingSession(client, 'May I, too?');
    await expect.poll(() => page.title()).toBe('(1) New session · Hostler');
    await expect.poll(() => recordedNotifications(page)).toMatchObject([{ body: 'Waiting for you.', isClosed: false }]);
    const { state } = await until(
      chat.view,
      ({ state }) => state?.activeTurn?.responseParts.at(-1)?.kind === 'toolCall',
    );
    const part = state?.activeTurn?.responseParts.at(-1);
    if (part?.kind !== 'toolCall') throw new Error('Nothing waits.');
    await chat.confirm(state?.activeTurn?.id ?? '', part.toolCall.toolCallId, { approved: true });
    await expect.poll(() => page.title()).toBe('New session · Hostler');
    await expect
      .poll(() => recordedNotifications(page))
      .toEqual([
        { title: 'May I, too?', body: 'Waiting for you.', isClosed: true },
        { title: 'May I, too?', body: 'Finished.', isClosed: false },
      ]);
  }),
);

test(
  'notifications stay off until the user enables them',
  browserTest(async (harness, client) => {
    const page = await openWithNotifications(harness, '/');
    await page.keyboard.press('Control+,');
    const wanted = page.getByRole('switch', { name: 'Notifications' });
    await wanted.uncheck();
    await page.keyboard.press('Escape');
    await createWaitingSession(client, 'No notification');
    await expect.poll(() => page.title()).toBe('(1) Hostler');
    expect(await recordedNotifications(page)).toEqual([]);
    await page.keyboard.press('Control+J');
    await page.getByRole('feed', { name: 'Turns' }).getByRole('button', { name: 'Deny', exact: true }).click();
    await expect.poll(() => page.title()).toBe('No notification · Hostler');
  }),
);

test(
  'a phone that requires a service worker says so in the settings',
  browserTest(async (harness) => {
    const context = await harness.signIn(await harness.newContext('phone'));
    await context.addInitScript(() => {
      class Refusing {
        static permission = 'default';
        constructor() {
          throw new TypeError('Illegal constructor.');
        }
      }
      Object.assign(window, { Notification: Refusing });
    });
    const page = await harness.openPage('/', context);
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Settings' }).click();
    await page.getByText('This browser does not support notifications').waitFor();
    await expect.poll(() => page.getByRole('switch', { name: 'Notifications' }).isDisabled()).toBe(true);
  }),
);

test(
  'a tab does not notify about a session that another tab shows',
  browserTest(async (harness, client) => {
    const page = await openWithNotifications(harness, '/');
    const { uri } = await createWaitingSession(client, 'Seen elsewhere');
    const other = await harness.openPage(sessionPath(uri), page.context());
    await other.bringToFront();
    await other
      .getByRole('button', { name: /^(Yes|Allow)/ })
      .first()
      .click();
    await other.getByText('It is written.', { exact: true }).waitFor();
    // A later notification proves that no earlier one is pending.
    await createWaitingSession(client, 'Seen nowhere');
    await expect
      .poll(async () => (await recordedNotifications(page)).map(({ title }) => title))
      .toContain('Seen nowhere');
    expect(
      (await recordedNotifications(page)).filter(
        ({ title, body }) => title === 'Seen elsewhere' && body === 'Finished.',
      ),
    ).toEqual([]);
  }),
);
