/** Reloads, killed hosts and bad networks. */

import { expect, test } from 'vitest';
import { findViolations } from './support/axe.ts';
import { withHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import { CONNECTION_ERRORS } from './support/problem-guard.ts';
import { emulateSlowNetwork } from './support/slow-network.ts';

test(
  'a host that is killed during a turn shows the error, and the turn resumes',
  withHarness(async (harness) => {
    harness.guard.expect(...CONNECTION_ERRORS);
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const command = scriptToolCall('Bash', { command: 'touch nothing' });
    await chat.send(scriptMessage(scriptText('I begin.'), command, scriptText('And I end.')));
    const card = page.getByRole('group', { name: 'Allow Bash?' });
    await card.waitFor();
    // Unsent text survives, too.
    await page.getByRole('textbox', { name: 'Message' }).fill('unsent text');
    await harness.host.stop('SIGKILL');
    await page.getByRole('status').filter({ hasText: /host/i }).first().waitFor();
    await harness.start();

    await page.getByText('The host stopped during this turn').waitFor();
    await card.waitFor({ state: 'hidden' });
    await page.getByText('I begin.', { exact: true }).waitFor();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('unsent text');
    expect(await findViolations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Resume this turn' }).click();
    // The agent continues with a new prompt.
    await page.getByText(/You said: Continue/).waitFor();
    await expect.poll(() => page.getByRole('button', { name: 'Resume this turn' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: unsent text').waitFor();
  }),
);

test(
  'messages sent during an outage are delivered once and in order',
  withHarness(async (harness) => {
    harness.guard.expect(...CONNECTION_ERRORS);
    const { uri } = await (await harness.connectClient()).createAnsweredSession('before');
    const page = await harness.openPage(sessionPath(uri));
    await page.getByText('You said: before').waitFor();
    await harness.host.stop();
    await page.getByText('Reconnecting… Messages are sent', { exact: false }).waitFor();
    const field = page.getByRole('textbox', { name: 'Message' });
    for (const text of ['first text', 'second text']) {
      await field.fill(text);
      await field.press('Enter');
      await expect.poll(() => field.inputValue()).toBe('');
    }
    await field.fill('not yet sent');
    await page.getByText('Your message is sent when the host is back').waitFor();
    await harness.start();
    await page.getByText('You said: second text').waitFor();
    const answers = await page.getByText(/You said: (before|first text|second text)$/).allTextContents();
    expect(answers.map((text) => text.replace(/.*You said: /, ''))).toEqual(['before', 'first text', 'second text']);
    await expect.poll(() => field.inputValue()).toBe('not yet sent');
  }),
);

test(
  'the page stays usable on a slow network: messages appear at once and in order',
  withHarness(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage('/');
    await emulateSlowNetwork(page);
    await page.goto(harness.origin + sessionPath(uri));
    const field = page.getByRole('textbox', { name: 'Message' });
    await field.waitFor();
    const messages = ['one', 'two', 'three'];
    for (const message of messages) {
      await field.pressSequentially(message);
      await field.press('Enter');
      // The message appears before the network confirms it.
      await page.getByText(message, { exact: true }).first().waitFor({ timeout: 1_000 });
    }
    await page.getByText('You said: three').waitFor();
    const answers = await page.getByText(/You said: \w+$/).allTextContents();
    expect(answers.map((text) => text.replace(/.*You said: /, ''))).toEqual(messages);

    // A page reloaded during an answer continues with it.
    await field.fill('!pace 10\n!deltas 400\n!say That was all.');
    await field.press('Enter');
    await page.getByText(/1 2 3 4 5/).waitFor();
    await page.reload();
    await page.getByText(/1 2 3 .* 30 /s).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
    await page.getByText('That was all.', { exact: true }).waitFor();
    await page.getByText(/1 2 3 .* 399 400/s).waitFor();
  }),
);
