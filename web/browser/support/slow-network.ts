/** Networks that are worse than this machine's own. */

import type { Page } from 'playwright-core';

/** A phone in a train: 400 ms there and back, 50 kB/s. It stays so as long as the page is open. */
export async function emulateSlowNetwork(page: Page): Promise<void> {
  const debug = await page.context().newCDPSession(page);
  const conditions = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 20_000 };
  await debug.send('Network.enable');
  await debug.send('Network.emulateNetworkConditions', conditions);
}
