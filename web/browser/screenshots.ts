/** `npm run screenshots -- DIR`: the main views with sessions in every state, light, dark and on a phone. */

import { join } from 'node:path';
import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import { launch } from './support/chromium.ts';
import { BrowserHarness, type Device } from './support/harness.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { createSampleSessions, type SampleSessions } from './support/sample-sessions.ts';

interface ScreenshotView {
  readonly name: string;
  readonly path: string;
  /** Visible when the screenshot can be taken. */
  readonly readyLocator: (page: Page) => Locator;
  /** Interaction before the screenshot. */
  readonly act?: (page: Page) => Promise<void>;
}

const THEMES_AND_DEVICES: Record<string, [Device, BrowserContextOptions]> = {
  light: ['desktop', { colorScheme: 'light' }],
  dark: ['desktop', { colorScheme: 'dark' }],
  phone: ['phone', { colorScheme: 'light', deviceScaleFactor: 2 }],
  'phone-dark': ['phone', { colorScheme: 'dark', deviceScaleFactor: 2 }],
};

function views({ finished, waiting, failed, working }: SampleSessions): ScreenshotView[] {
  return [
    { name: 'home', path: '/', readyLocator: (page) => sessionsPane(page).getByText('The lamp goes out too early') },
    { name: 'new', path: '/new', readyLocator: (page) => page.getByRole('heading', { name: /new session/i }) },
    { name: 'search', path: '/search?q=lamp', readyLocator: (page) => page.locator('mark') },
    { name: 'finished', path: sessionPath(finished), readyLocator: (page) => page.getByText('Nothing else calls it.') },
    {
      name: 'diff',
      path: sessionPath(finished),
      readyLocator: (page) => page.getByText('Nothing else calls it.'),
      act: (page) => page.getByRole('button', { name: /^Edited/ }).click(),
    },
    {
      name: 'waiting',
      path: sessionPath(waiting),
      readyLocator: (page) => page.getByText('I would move it into the shed.'),
    },
    {
      name: 'failed',
      path: sessionPath(failed),
      readyLocator: (page) => page.getByText('cannot be used with your account'),
    },
    { name: 'working', path: sessionPath(working), readyLocator: (page) => page.getByText('What I found so far') },
  ];
}

export async function main(directory: string): Promise<void> {
  const browser = await launch();
  try {
    const harness = await BrowserHarness.create(browser);
    try {
      const all = views(await createSampleSessions(harness, await harness.connectClient()));
      for (const [look, [device, options]] of Object.entries(THEMES_AND_DEVICES)) {
        const context = await harness.signIn(await harness.newContext(device, { ...options, reducedMotion: 'reduce' }));
        for (const { name, path, readyLocator, act } of all) {
          const page = await harness.openPage(path, context);
          await readyLocator(page).first().waitFor();
          await act?.(page);
          await page.evaluate(() => document.fonts.ready);
          await page.screenshot({ path: join(directory, `web-${name}-${look}.png`), animations: 'disabled' });
          await page.close();
        }
        await context.close();
      }
      harness.guard.check();
    } finally {
      await harness.dispose();
    }
  } finally {
    await browser.close();
  }
}
