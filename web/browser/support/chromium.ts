/** The system's Chromium, without a screen and without a past. */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'google-chrome'];

/** It must not ask anybody for anything by itself: what is requested, the page has requested. */
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The one that `cargo xtask` has found, or the first on `PATH`. */
function executable(): string {
  const { CHROMIUM, PATH = '' } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const places = PATH.split(delimiter).flatMap((place) => NAMES.map((name) => join(place, name)));
  const found = places.find((place) => existsSync(place));
  if (!found) throw new Error('There is no chromium on PATH; `cargo xtask setup` installs it.');
  return found;
}

/** It leaves files behind in the directory for temporary ones, so it gets one that goes with it. */
export async function launch(): Promise<Browser> {
  const directory = mkdtempSync(join(tmpdir(), 'hostler-web-chromium-'));
  const remove = () => rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
  try {
    const env = { ...process.env, TMPDIR: directory } as Record<string, string>;
    const browser = await chromium.launch({ executablePath: executable(), headless: true, args: ARGUMENTS, env });
    const close = browser.close.bind(browser);
    browser.close = async (options) => {
      await close(options);
      remove();
    };
    return browser;
  } catch (error) {
    remove();
    throw error;
  }
}
