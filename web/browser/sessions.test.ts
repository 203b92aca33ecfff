/** The session list: status, filter, search and actions. */

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { activityOf, hasFlag, ROOT_CHANNEL, type SessionSummary, StatusFlag, type Uri } from '../src/ahp/index.ts';
import { configureHost } from '../src/core/session-commands.ts';
import { until } from '../tests/support/fake-server.ts';
import { writeExternalTranscript } from './support/external-transcript.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { createSampleSessions } from './support/sample-sessions.ts';
import type { SecondClient } from './support/second-client.ts';

const browserTest = sharedHarness(async (harness) => {
  const client = await harness.connectClient();
  return { client, ...(await createSampleSessions(harness, client)) };
});

/** A session's row in the list. */
function sessionRow(page: Page, title: string): Locator {
  return sessionsPane(page).getByRole('listitem').filter({ hasText: title });
}

/** A group header with its session count. */
function group(page: Page, title: string): Locator {
  return sessionsPane(page).getByRole('button', { name: new RegExp(`^${title}\\W+sessions: \\d`) });
}

async function choose(page: Page, title: string, action: string): Promise<void> {
  await sessionRow(page, title).hover();
  await page.getByRole('button', { name: `Actions for ${title}`, exact: true }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** Waits until another client sees a session in the expected state. */
async function listed(
  client: SecondClient,
  uri: Uri,
  is: (session: SessionSummary) => boolean,
): Promise<SessionSummary> {
  const find = (items: readonly SessionSummary[]) => items.find(({ resource }) => resource === uri);
  const { items } = await until(client.host.sessions.view, (view) => {
    const session = find(view.items);
    return session !== undefined && is(session);
  });
  return find(items) as SessionSummary;
}

test(
  'sessions are grouped by folder with a status label, and waiting ones come first',
  browserTest(async (harness) => {
    const page = await harness.openPage('/');
    await sessionRow(page, 'Put the old lamp away').waitFor();
    const heads = sessionsPane(page).getByRole('button', { name: /sessions: \d/ });
    const headings = (await heads.allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
    expect(headings[0]).toMatch(/^Waiting for you.* 1$/);
    expect(
      headings
        .slice(1)
        .map((text) => text.split(/\W/)[0])
        .sort(),
    ).toEqual(['lighthouse', 'orchard']);
    await expect.poll(() => sessionRow(page, "Read the keeper's book").textContent()).toContain('Working');
    await expect.poll(() => sessionRow(page, 'Count the apples').textContent()).toContain('Failed');
    // The header of the waiting group shows it; its rows name their folders.
    await expect.poll(() => sessionRow(page, 'Put the old lamp away').textContent()).toContain('lighthouse');

    await group(page, 'orchard').click();
    await sessionRow(page, 'Count the apples').waitFor({ state: 'hidden' });
    await page.reload();
    await sessionRow(page, 'The lamp goes out too early').waitFor();
    await expect.poll(() => sessionRow(page, 'Count the apples').count()).toBe(0);
    await group(page, 'orchard').click();
    await sessionRow(page, 'Count the apples').waitFor();
  }),
);

test(
  'a session that finishes in the background is unread until it is opened',
  browserTest(async (harness, { client }) => {
    const page = await harness.openPage('/');
    const { uri, chat, session } = await client.createSession();
    await chat.send({ text: '!wait 300\n!say It is done.' });
    await session.rename('Ends in the background');
    const mark = sessionRow(page, 'Ends in the background').getByText('Unread');
    await mark.waitFor();
    expect(
      hasFlag((await listed(client, uri, ({ status }) => activityOf(status) === 'idle')).status, StatusFlag.isRead),
    ).toBe(false);

    await sessionRow(page, 'Ends in the background').getByRole('link').click();
    await page.getByText('It is done.', { exact: true }).waitFor();
    await mark.waitFor({ state: 'hidden' });
    await listed(client, uri, ({ status }) => hasFlag(status, StatusFlag.isRead));

    // A visible session is never marked unread.
    await page.getByRole('textbox', { name: 'Message' }).fill('!say Seen as it came.');
    await page.keyboard.press('Enter');
    await page.getByText('Seen as it came.', { exact: true }).waitFor();
    await listed(client, uri, ({ status }) => hasFlag(status, StatusFlag.isRead) && activityOf(status) === 'idle');
    await expect.poll(() => mark.count()).toBe(0);

    // The user can mark it unread.
    await choose(page, 'Ends in the background', 'Mark as unread');
    await mark.waitFor();
    await listed(client, uri, ({ status }) => !hasFlag(status, StatusFlag.isRead));
  }),
);

test(
  'typing filters the list by name and folder, and Enter opens the first match',
  browserTest(async (harness, { failed }) => {
    const page = await harness.openPage('/');
    await sessionRow(page, 'Count the apples').waitFor();
    await page.keyboard.press('Control+Shift+L');
    await page.keyboard.type('ORCH');
    await sessionRow(page, 'The lamp goes out too early').waitFor({ state: 'hidden' });
    await expect.poll(() => sessionRow(page, 'Count the apples').count()).toBe(1);
    await expect.poll(() => sessionRow(page, "Read the keeper's book").count()).toBe(1);

    await page.keyboard.type('ard apples');
    await sessionRow(page, "Read the keeper's book").waitFor({ state: 'hidden' });
    await page.keyboard.press('Enter');
    await page.getByText('cannot be used with your account').waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(failed));

    await page.getByRole('searchbox', { name: 'Find a session' }).fill('no such thing');
    await sessionsPane(page).getByText('No sessions match').waitFor();
    await sessionsPane(page).getByRole('button', { name: 'Clear' }).click();
    await sessionRow(page, 'The lamp goes out too early').waitFor();
  }),
);

test(
  'search results lead to the session and turn with surrounding text',
  browserTest(async (harness, { client }) => {
    const far = Array.from({ length: 12 }, (_, at) => `!say Line ${at}.\\n\\n${'The tide came in. '.repeat(60)}`);
    const { uri, session } = await client.createAnsweredSession(
      '!say A heron stood on the breakwater at dawn.',
      ...far,
    );
    await session.rename('Birds');
    const page = await harness.openPage('/');
    await page.getByRole('searchbox', { name: 'Find a session' }).fill('heron breakwater');
    await page.getByRole('button', { name: 'Search all messages for “heron breakwater”' }).click();
    const found = page.getByRole('article').filter({ hasText: 'Birds' });
    const place = found.getByRole('link').filter({ hasText: 'heron' });
    await place.waitFor();
    await expect.poll(() => place.locator('mark').allInnerTexts()).toEqual(['heron', 'breakwater']);
    await expect.poll(() => place.textContent()).toContain('A heron stood on the breakwater');

    await place.click();
    expect(new URL(page.url()).pathname.startsWith(sessionPath(uri))).toBe(true);
    const turn = page.getByText('A heron stood on the breakwater at dawn.', { exact: true });
    await turn.waitFor();
    // The view is at the matching turn, not at the end.
    await expect.poll(async () => (await turn.boundingBox())?.y).toBeGreaterThan(0);
    expect((await turn.boundingBox())?.y).toBeLessThan(800);
    await page.goBack();
    await place.waitFor();
    await expect
      .poll(() => page.getByRole('searchbox', { name: 'Search all messages' }).inputValue())
      .toBe('heron breakwater');
  }),
);

test(
  'search can include external sessions that the list hides',
  browserTest(async (harness, { client }) => {
    writeExternalTranscript(harness.host, 3);
    await configureHost(client.host, { showExternalSessions: 'none' });
    // The host finds and indexes the transcript in the background.
    const search = { channel: ROOT_CHANNEL, query: '"question 3"', all: true, wait: true };
    await expect.poll(async () => (await client.host.client.request('hostler/search', search)).items.length).toBe(1);
    const page = await harness.openPage('/');
    await page.getByRole('searchbox', { name: 'Find a session' }).fill('"question 3"');
    await page.getByRole('button', { name: /^Search all messages/ }).click();
    await page.getByText('No results').waitFor();
    await page.getByRole('checkbox', { name: /^Include external sessions/ }).check();
    const found = page.getByRole('article').filter({ hasText: 'question 3' });
    await found.getByText('not listed').waitFor();
    await configureHost(client.host, { showExternalSessions: 'all' });
    await page.getByRole('checkbox').waitFor({ state: 'detached' });
    await found.getByText('not listed').waitFor({ state: 'detached' });
    await found.waitFor();
  }),
);

test(
  'renaming, archiving and deleting a session reaches another client',
  browserTest(async (harness, { client }) => {
    const { uri, session } = await client.createAnsweredSession('something old');
    await session.rename('Something old');
    const page = await harness.openPage('/');
    await choose(page, 'Something old', 'Rename');
    await page.getByRole('textbox', { name: 'Session name' }).fill('Something new');
    await page.keyboard.press('Enter');
    await sessionRow(page, 'Something new').waitFor();
    await listed(client, uri, ({ title }) => title === 'Something new');

    // A rename by another client appears here.
    await session.rename('Something borrowed');
    await sessionRow(page, 'Something borrowed').waitFor();

    await choose(page, 'Something borrowed', 'Archive');
    await sessionRow(page, 'Something borrowed').waitFor({ state: 'hidden' });
    await listed(client, uri, ({ status }) => hasFlag(status, StatusFlag.isArchived));
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Show archived sessions' }).click();
    await choose(page, 'Something borrowed', 'Unarchive');
    await listed(client, uri, ({ status }) => !hasFlag(status, StatusFlag.isArchived));
    await page.getByRole('button', { name: 'All sessions' }).click();

    await sessionRow(page, 'Something borrowed').getByRole('link').click();
    await page.getByText('You said: something old').waitFor();
    await choose(page, 'Something borrowed', 'Delete');
    const question = page.getByRole('dialog', { name: 'Delete this session?' });
    await question.getByRole('button', { name: 'Keep session' }).click();
    await question.waitFor({ state: 'hidden' });
    await expect.poll(() => sessionRow(page, 'Something borrowed').count()).toBe(1);

    const other = await harness.openPage(sessionPath(uri), page.context());
    await other.getByText('You said: something old').waitFor();
    await choose(page, 'Something borrowed', 'Delete');
    await question.getByRole('button', { name: 'Delete', exact: true }).click();
    await sessionRow(page, 'Something borrowed').waitFor({ state: 'hidden' });
    // A page with the session open shows the deletion.
    await other.getByRole('heading', { name: /no longer exists/i }).waitFor();
    await until(client.host.sessions.view, ({ items }) => items.every(({ resource }) => resource !== uri));
    await expect((await harness.connectClient()).openSession(uri)).rejects.toThrow();
  }),
);
