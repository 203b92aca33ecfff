/** The demo command. */

import { expect, test } from 'vitest';
import { BINARY, HostProcess } from '../tests/support/host-process.ts';
import { launch } from './support/chromium.ts';
import { ProblemGuard } from './support/problem-guard.ts';

test('the demo prints a link to the page with its finished turns', async ({ onTestFinished }) => {
  if (!BINARY) throw new Error('HOSTLER_BIN does not name a hostler; `cargo xtask web --browser` does it all.');
  const hostler = new HostProcess();
  const browser = await launch();
  onTestFinished(async () => {
    await browser.close();
    await hostler.stop();
    hostler.remove();
  });
  const link = await hostler.demo(BINARY);
  const context = await browser.newContext({ locale: 'en-GB' });
  const guard = new ProblemGuard(() => hostler.origin);
  await guard.watch(context);
  const page = await context.newPage();
  await page.goto(link);
  await page.getByText('Hello from the scripted model. You said: and once more', { exact: true }).waitFor();
  await expect.poll(() => page.getByRole('article').count()).toBe(2);
  await expect.poll(() => page.getByRole('button', { name: 'Stop', exact: true }).count()).toBe(0);
  expect(new URL(page.url()).hash).toBe('');
  guard.check();
});
