/** The system's Chromium, headless and with a fresh profile. */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const NAMES = ['chromium', 'google-chrome'];

/** Disables Chromium's own requests, so that every request comes from the page. */
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The binary that `cargo xtask` found, or the first on `PATH`. */
function executable(): string {
  const { CHROMIUM, PATH = '' } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const places = PATH.split(delimiter).flatMap((place) => NAMES.map((name) => join(place, name)));
  const found = places.find((place) => existsSync(place));
  if (!found) throw new Error('There is no chromium on PATH; `cargo xtask setup` installs it.');
  return found;
}

/** Chromium leaves temporary files, so it gets a directory that is removed with it. */
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
