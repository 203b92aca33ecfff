/** Unsent text is neither lost nor restored twice. */

import { expect, test } from 'vitest';
import { setSessionArchived } from '../src/core/session-commands.ts';
import { sharedHarness, withHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import { CONNECTION_ERRORS } from './support/problem-guard.ts';

const browserTest = sharedHarness((harness) => harness.connectClient());

test(
  'unsent text can be copied when the session is deleted elsewhere',
  browserTest(async (harness, client) => {
    const { uri, session } = await client.createAnsweredSession('before');
    const page = await harness.openPage(sessionPath(uri));
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: harness.origin });
    await page.getByText('You said: before').waitFor();
    await page.getByRole('textbox', { name: 'Message' }).fill('a long thought');
    await session.dispose();
    await page.getByRole('heading', { name: 'This session no longer exists' }).waitFor();
    await expect.poll(() => page.getByText('You said: before').count()).toBe(0);
    await page.getByRole('button', { name: 'Copy your text' }).click();
    await page.getByText('Copied.').waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('a long thought');
  }),
);

test(
  'the first message of a session does not reappear in the next new session',
  browserTest(async (harness) => {
    const page = await harness.openPage('/new');
    const first = page.getByRole('textbox', { name: 'First message' });
    await first.fill('said once');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText('You said: said once').waitFor();
    await page.getByRole('button', { name: 'New session' }).first().click();
    await expect.poll(() => first.inputValue()).toBe('');

    // Unsent text stays stored.
    await first.fill('not said yet');
    await page.reload();
    await expect.poll(() => first.inputValue()).toBe('not said yet');
  }),
);

test(
  'the list loads pages until the filter matches, and reports when nothing matches',
  withHarness(async (harness) => {
    const client = await harness.connectClient();
    const { session } = await client.createAnsweredSession('long ago');
    await session.rename('The oldest needle');
    const { uri } = await client.createAnsweredSession('just now');
    await setSessionArchived(client.host, uri, true);
    const context = await harness.signIn(await harness.newContext());
    // Pages of one session; the first page has only archived ones.
    await context.routeWebSocket(/\/ahp/, (page) => {
      const host = page.connectToServer();
      page.onMessage((frame) => host.send(String(frame).replace('"limit":100', '"limit":1')));
    });
    const page = await harness.openPage('/', context);
    await sessionsPane(page).getByRole('listitem').filter({ hasText: 'The oldest needle' }).waitFor();
    await page.getByLabel('Find a session').fill('no such straw');
    await page.getByText('No sessions match.').waitFor();
  }),
);

test(
  'a tab with unsaved text asks before it closes',
  withHarness(async (harness) => {
    harness.guard.expect(...CONNECTION_ERRORS);
    const { uri } = await (await harness.connectClient()).createAnsweredSession('before');
    const page = await harness.openPage(sessionPath(uri));
    const dialogShown: string[] = [];
    page.on('dialog', (dialog) => {
      dialogShown.push(dialog.type());
      void dialog.accept();
    });
    const field = page.getByRole('textbox', { name: 'Message' });
    await page.getByText('You said: before').waitFor();
    await field.click();
    await page.keyboard.type('the host has this');
    await page.reload();
    await expect.poll(() => field.inputValue()).toBe('the host has this');
    expect(dialogShown).toEqual([]);

    await harness.host.stop('SIGKILL');
    await page.getByRole('status').filter({ hasText: 'Reconnecting…' }).first().waitFor();
    await field.click();
    await page.keyboard.type(', but not this');
    const closed = page.waitForEvent('close');
    await page.close({ runBeforeUnload: true });
    await closed;
    expect(dialogShown).toEqual(['beforeunload']);
  }),
);

test(
  'signing out clears text typed into a request, without a reload',
  withHarness(async (harness) => {
    harness.guard.expect(/status of 40[13]/, /answer 40[13]: .*\/(sign-in|ahp)/, /WebSocket connection to '.*' failed/);
    const client = await harness.connectClient();
    const { uri, chat } = await client.createSession();
    await chat.send(
      scriptMessage(scriptToolCall('Bash', { command: 'mkdir here', description: 'A folder' }), scriptText('Done.')),
    );
    const page = await harness.openPage(sessionPath(uri));
    const card = page.getByRole('group', { name: 'Allow Bash?' });
    await card.getByRole('button', { name: 'Deny with a message' }).click();
    await page.keyboard.type('my secret reason');
    await page.evaluate(() => Object.assign(window, { sameDocument: true }));

    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
    await page.getByRole('textbox', { name: 'Link' }).fill(await harness.createSignInCode());
    await page.keyboard.press('Enter');
    await card.getByRole('button', { name: 'Deny with a message' }).click();
    const field = card.getByRole('textbox', { name: 'What should the agent do instead?' });
    expect(await field.inputValue()).toBe('');
    expect(await page.evaluate(() => 'sameDocument' in window), 'the page was not loaded anew').toBe(true);
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    expect(stored).not.toContain('secret');
  }),
);
