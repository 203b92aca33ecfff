/** The system's Chromium, without a screen and without a past. */

import { existsSync } from 'node:fs';
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

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: executable(), headless: true, args: ARGUMENTS });
}
