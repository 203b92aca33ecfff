/** Network emulation. */

import type { Page } from 'playwright-core';

/** A slow mobile network: 400 ms latency, 50 kB/s, while the page is open. */
export async function emulateSlowNetwork(page: Page): Promise<void> {
  const debug = await page.context().newCDPSession(page);
  const conditions = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 20_000 };
  await debug.send('Network.enable');
  await debug.send('Network.emulateNetworkConditions', conditions);
}
