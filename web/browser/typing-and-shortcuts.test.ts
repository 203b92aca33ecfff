/** Typing with a real keyboard at every focus: text reaches the message field and never answers, archives or navigates. */

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { type Chat, hasFlag, StatusFlag } from '../src/ahp/index.ts';
import { SCOPE_HEADINGS, SHORTCUTS, shortcutsInScope } from '../src/core/shortcut-registry.ts';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import type { OpenedSession, SecondClient } from './support/second-client.ts';

const browserTest = sharedHarness((harness) => harness.connectClient());

const TYPED_SAMPLES = ['yes please', 'hello everyone', 'n', 'Yes!'] as const;

/** Calls that run in parallel, so that two confirmations are pending. */
function readCalls(...names: readonly string[]): readonly string[] {
  return names.map((name) => scriptToolCall('Read', { file_path: `/etc/${name}` }));
}

function field(page: Page): Locator {
  return page.getByRole('textbox', { name: 'Message' });
}

function cards(page: Page): Locator {
  return page.getByRole('group', { name: 'Allow Read?' });
}

function waiting(chat: Chat): number {
  const parts = chat.view.value.state?.activeTurn?.responseParts ?? [];
  return parts.filter((part) => part.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation').length;
}

async function begin(client: SecondClient, ...lines: readonly string[]): Promise<OpenedSession> {
  const opened = await client.createSession();
  await opened.chat.send(scriptMessage(...lines));
  return opened;
}

async function createRequests(client: SecondClient, ...names: readonly string[]): Promise<OpenedSession> {
  const opened = await begin(client, ...readCalls(...names), scriptText('They are read.'));
  await until(opened.chat.view, () => waiting(opened.chat) === names.length);
  return opened;
}

function isFocused(locator: Locator): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}

async function blur(page: Page): Promise<void> {
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  expect(await page.evaluate(() => document.activeElement === document.body)).toBe(true);
}

/** A draft on the host proves that everything sent before it has arrived. */
async function waitForDraft(chat: Chat, text: string): Promise<void> {
  await until(chat.view, ({ state }) => (state?.draft?.text ?? '') === text);
}

/** Types all samples with one focus and checks the effects. */
async function typeAll(
  page: Page,
  client: SecondClient,
  { uri, chat }: OpenedSession,
  focus: () => Promise<unknown>,
): Promise<void> {
  const before = { waits: waiting(chat), runs: chat.view.value.state?.activeTurn !== undefined };
  const unchanged = async (text: string) => {
    await waitForDraft(chat, text);
    const state = { waits: waiting(chat), runs: chat.view.value.state?.activeTurn !== undefined };
    expect(state, text).toEqual(before);
    expect(new URL(page.url()).pathname, text).toBe(sessionPath(uri));
    const { items } = client.host.sessions.view.value;
    expect(
      items.filter(({ status }) => hasFlag(status, StatusFlag.isArchived)),
      text,
    ).toEqual([]);
    expect(await page.getByRole('dialog').count(), text).toBe(0);
    await field(page).fill('');
    await waitForDraft(chat, '');
  };
  for (const text of TYPED_SAMPLES) {
    await focus();
    await page.keyboard.type(text);
    expect(await field(page).inputValue()).toBe(text);
    await unchanged(text);
  }
  await focus();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.type('after');
  expect(await field(page).inputValue()).toBe('after');
  await unchanged('after');
}

test(
  'with an open request, typing never answers it, wherever it starts',
  browserTest(async (harness, client) => {
    const opened = await createRequests(client, 'hostname');
    const page = await harness.openPage(sessionPath(opened.uri));
    await cards(page).waitFor();
    await expect.poll(() => isFocused(field(page))).toBe(true);
    const conversation = page.getByRole('region', { name: 'Conversation' });
    const states: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['as it opens', async () => expect(await isFocused(field(page))).toBe(true)],
      ['body', () => blur(page)],
      ['conversation', () => conversation.focus()],
      ['card', () => cards(page).focus()],
      ['a button of the card', () => cards(page).getByRole('button', { name: 'Allow once' }).focus()],
      ['list', () => sessionsPane(page).getByRole('link').nth(1).focus()],
      ['a button of the list', () => page.getByRole('button', { name: 'Menu', exact: true }).focus()],
      [
        'settings closed',
        async () => {
          await page.keyboard.press('Control+,');
          await page.getByRole('dialog', { name: 'Settings' }).waitFor();
          await page.keyboard.press('Escape');
          await page.getByRole('dialog').waitFor({ state: 'hidden' });
        },
      ],
    ];
    for (const [name, focus] of states) {
      await typeAll(page, client, opened, focus).catch((error: unknown) => {
        throw new Error(`${name}: ${error instanceof Error ? error.message : error}`, { cause: error });
      });
    }
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'opening a session from the list, the search or again focuses its message field',
  browserTest(async (harness, client) => {
    const [one, other] = [await client.createAnsweredSession('one'), await client.createAnsweredSession('other')];
    await one.session.rename('The first one');
    await other.session.rename('The second one');
    const page = await harness.openPage(sessionPath(one.uri));
    await page.getByText('You said: one').waitFor();
    const link = (name: string) => sessionsPane(page).getByRole('link', { name: new RegExp(name) });
    await link('The second one').click();
    await page.getByText('You said: other').waitFor();
    await expect.poll(() => isFocused(field(page))).toBe(true);
    await link('The second one').click();
    await expect.poll(() => isFocused(field(page))).toBe(true);
    await page.keyboard.press('Control+Shift+L');
    await page.keyboard.type('first one');
    await page.keyboard.press('Enter');
    await page.getByText('You said: one').waitFor();
    await expect.poll(() => isFocused(field(page))).toBe(true);
    await link('The first one').focus();
    await page.keyboard.press('Control+K');
    await page.keyboard.type('second one');
    await page.keyboard.press('Enter');
    await page.getByText('You said: other').waitFor();
    await expect.poll(() => isFocused(field(page))).toBe(true);
    await typeAll(page, client, other, async () => undefined);
    await typeAll(page, client, other, () => blur(page));
    await typeAll(page, client, other, () => link('The first one').focus());
  }),
);

test(
  'two open requests share no key, and every answer returns the focus to the message field',
  browserTest(async (harness, client) => {
    const opened = await createRequests(client, 'hostname', 'hosts');
    const page = await harness.openPage(sessionPath(opened.uri));
    await expect.poll(() => cards(page).count()).toBe(2);
    const [first, second] = [cards(page).first(), cards(page).last()];
    const chords = (card: Locator) => card.getByText('Ctrl+Shift+↵');
    await expect
      .poll(async () => [await chords(first).isVisible(), await chords(second).isVisible()])
      .toEqual([true, false]);
    await typeAll(page, client, opened, async () => undefined);
    await typeAll(page, client, opened, () => second.focus());

    // The focused card gets the chords and the digits.
    await second.focus();
    await expect
      .poll(async () => [await chords(first).isVisible(), await chords(second).isVisible()])
      .toEqual([false, true]);
    const keys = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('[data-key][aria-keyshortcuts]')].map((button) =>
          button.getAttribute('aria-keyshortcuts'),
        ),
      );
    const all = (await keys()).flatMap((text) => text?.split(' ') ?? []);
    expect(all).toContain('Control+Shift+Enter');
    expect(new Set(all).size, 'each key is there once').toBe(all.length);
    await page.keyboard.press('0');
    await expect.poll(() => cards(page).count()).toBe(1);
    await until(opened.chat.view, () => waiting(opened.chat) === 1);
    await expect.poll(() => isFocused(field(page))).toBe(true);
    await typeAll(page, client, opened, async () => undefined);

    // A chord from the field answers the marked card.
    await chords(cards(page)).waitFor();
    await page.keyboard.type('meanwhile');
    await page.keyboard.press('Control+Shift+Enter');
    await page.getByText('They are read.', { exact: true }).waitFor();
    expect(await isFocused(field(page))).toBe(true);
    expect(await field(page).inputValue()).toBe('meanwhile');
    const parts = opened.chat.view.value.state?.turns[0]?.responseParts ?? [];
    const ends = parts.flatMap((part) => (part.kind === 'toolCall' ? [part.toolCall.status] : []));
    expect(ends.sort()).toEqual(['cancelled', 'completed']);
  }),
);

test(
  'a digit allows the focused request, and a chord denies it from elsewhere',
  browserTest(async (harness, client) => {
    const opened = await createRequests(client, 'hostname');
    const page = await harness.openPage(sessionPath(opened.uri));
    const digit = cards(page).locator('kbd', { hasText: /^1$/ });
    await cards(page).waitFor();
    expect(await digit.isVisible(), 'no hint where the key does not work').toBe(false);
    await cards(page).focus();
    await expect.poll(() => digit.isVisible()).toBe(true);
    await page.keyboard.press('1');
    await page.getByText('They are read.', { exact: true }).waitFor();

    await opened.chat.send(scriptMessage(...readCalls('hosts'), scriptText('It went on.')));
    await cards(page).getByText('Ctrl+Shift+X').waitFor();
    await blur(page);
    await page.keyboard.press('Control+Shift+X');
    await page.getByText('It went on.', { exact: true }).waitFor();
    const last = opened.chat.view.value.state?.turns.at(-1)?.responseParts.find(({ kind }) => kind === 'toolCall');
    expect(last).toMatchObject({ toolCall: { status: 'cancelled' } });
  }),
);

test(
  'Escape never navigates away from a running turn: it focuses the field, then stops the agent',
  browserTest(async (harness, client) => {
    const opened = await begin(client, scriptText('So far.'), '!hang');
    const page = await harness.openPage(sessionPath(opened.uri));
    await page.getByText('So far.', { exact: true }).waitFor();
    await typeAll(page, client, opened, () => blur(page));
    await typeAll(page, client, opened, () => sessionsPane(page).getByRole('link').nth(1).focus());
    await field(page).focus();
    for (const text of TYPED_SAMPLES) {
      await page.keyboard.type(text);
      await waitForDraft(opened.chat, text);
      await field(page).fill('');
      await waitForDraft(opened.chat, '');
    }
    expect(opened.chat.view.value.state?.activeTurn).toBeDefined();
    await page.keyboard.press('Escape');
    await page.getByText('Press Escape again').waitFor();
    await page.keyboard.press('Escape');
    await until(opened.chat.view, ({ state }) => state?.activeTurn === undefined);
    expect(new URL(page.url()).pathname).toBe(sessionPath(opened.uri));
    expect(await isFocused(field(page))).toBe(true);
  }),
);

test(
  'letter shortcuts can be switched off, and letters then type text in the list and on requests',
  browserTest(async (harness, client) => {
    const opened = await createRequests(client, 'hostname');
    await opened.session.rename('Not to be archived');
    const page = await harness.openPage(sessionPath(opened.uri));
    await cards(page).waitFor();
    await page.keyboard.press('Control+,');
    const letters = page.getByRole('switch', { name: 'Single-key shortcuts' });
    await letters.uncheck();
    expect(await findViolations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    const digit = cards(page).locator('kbd', { hasText: /^1$/ });
    const places = [cards(page), sessionsPane(page).getByRole('link', { name: /Not to be archived/ })];
    for (const place of places) {
      for (const text of ['1', '0', 'e', 'r', 'j', 'u']) {
        await place.focus();
        expect(await digit.isVisible()).toBe(false);
        await page.keyboard.press(text);
        await waitForDraft(opened.chat, text);
        await field(page).fill('');
        await waitForDraft(opened.chat, '');
      }
    }
    expect(waiting(opened.chat)).toBe(1);
    // The preference belongs to this browser.
    await page.reload();
    await cards(page).waitFor();
    await cards(page).focus();
    expect(await digit.isVisible()).toBe(false);
    await page.keyboard.press('Control+Shift+Enter');
    await page.getByText('They are read.', { exact: true }).waitFor();
  }),
);

test(
  'the shortcuts dialog lists exactly the registry',
  browserTest(async (harness) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    await page.keyboard.press('Control+/');
    const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await dialog.waitFor();
    expect(await dialog.getByRole('heading', { level: 3 }).allTextContents()).toEqual(
      SCOPE_HEADINGS.map(([, title]) => title),
    );
    const listed = await dialog.locator('dt').allTextContents();
    expect(listed).toEqual(SCOPE_HEADINGS.flatMap(([scope]) => shortcutsInScope(scope).map(({ label }) => label)));
    expect(listed.length).toBe(Object.keys(SHORTCUTS).length);
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'in the home view letters do nothing, and in a new session they type the first message',
  browserTest(async (harness) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    for (const text of TYPED_SAMPLES) await page.keyboard.type(text);
    await page.keyboard.press('Escape');
    expect(new URL(page.url()).pathname).toBe('/');
    await page.keyboard.press('Control+Shift+O');
    const first = page.getByRole('textbox', { name: 'First message' });
    await expect.poll(() => isFocused(first)).toBe(true);
    await blur(page);
    await page.keyboard.type('never mind');
    expect(await first.inputValue()).toBe('never mind');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    expect(new URL(page.url()).pathname).toBe('/new');
  }),
);

test(
  'a phone does not open its keyboard when a session opens or after an answer',
  browserTest(async (harness, client) => {
    const opened = await createRequests(client, 'hostname');
    const page = await harness.openPage(sessionPath(opened.uri), 'phone');
    await cards(page).waitFor();
    expect(await isFocused(field(page))).toBe(false);
    await cards(page).getByRole('button', { name: 'Allow once' }).tap();
    await page.getByText('They are read.', { exact: true }).waitFor();
    expect(await isFocused(field(page))).toBe(false);
    expect(await page.getByText('Ctrl+Shift+↵').filter({ visible: true }).count()).toBe(0);
    // A hardware keyboard types into the field.
    await page.keyboard.type('thanks');
    expect(await field(page).inputValue()).toBe('thanks');
  }),
);
