/** Outages of the host and slow networks. */

import { expect, test } from 'vitest';
import { withHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { CONNECTION_ERRORS } from './support/problem-guard.ts';
import { emulateSlowNetwork } from './support/slow-network.ts';

test(
  'an outage shows a banner with a countdown, and messages sent meanwhile arrive after reconnecting',
  withHarness(async (harness) => {
    harness.guard.expect(...CONNECTION_ERRORS);
    const { uri } = await (await harness.connectClient()).createAnsweredSession('before');
    const page = await harness.openPage(sessionPath(uri));
    await page.getByText('You said: before').waitFor();
    const banner = page.getByRole('region', { name: 'Connection' }).getByText(/Retrying|Connecting/);
    await expect.poll(() => banner.count()).toBe(0);

    await harness.host.stop('SIGKILL');
    await page.getByRole('status').filter({ hasText: 'Reconnecting…' }).waitFor();
    // The countdown decreases.
    const seconds: number[] = [];
    const isCountingDown = async () => {
      const [, number] = /in (\d+) s/.exec((await banner.textContent()) ?? '') ?? [];
      if (number !== undefined && Number(number) !== seconds.at(-1)) seconds.push(Number(number));
      return seconds.some((one, at) => seconds[at + 1] === one - 1);
    };
    await expect.poll(isCountingDown).toBe(true);
    // The chat stays readable, and messages can be sent.
    await expect.poll(() => page.getByText('You said: before').isVisible()).toBe(true);
    await page.getByRole('textbox', { name: 'Message' }).fill('sent while offline');
    await page.keyboard.press('Enter');

    await harness.start();
    await banner.waitFor({ state: 'hidden' });
    await page.getByText('You said: sent while offline').waitFor();
    await expect.poll(() => page.getByText('You said: before').isVisible()).toBe(true);
    await page.getByRole('textbox', { name: 'Message' }).fill('after');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: after').waitFor();
    await expect.poll(() => page.getByText('You said: sent while offline').count()).toBe(1);
  }),
);

test(
  'a host that is killed during an answer restores the chat after a restart',
  withHarness(async (harness) => {
    harness.guard.expect(...CONNECTION_ERRORS);
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send({ text: '!pace 20\n!deltas 2000' });
    await page.getByText(/1 2 3 4 5/).waitFor();
    await harness.host.stop('SIGKILL');
    await page.getByRole('status').filter({ hasText: /host/i }).waitFor();
    await harness.start();
    await page.getByRole('textbox', { name: 'Message' }).fill('and now?');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: and now?').waitFor();
    await expect.poll(() => page.getByText(/1 2 3 4 5/).isVisible()).toBe(true);
  }),
);

test(
  'a slow network delays an answer without losing any of it',
  withHarness(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage('/');
    await emulateSlowNetwork(page);
    await page.goto(harness.origin + sessionPath(uri));
    await page.getByRole('textbox', { name: 'Message' }).fill('!deltas 500\n!say That was all.');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('That was all.').waitFor();
    await page.getByText(/1 2 3 .* 499 500/s).waitFor();
  }),
);
