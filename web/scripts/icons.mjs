// Draws the icons in `public` from the logo: `node scripts/icons.mjs CHROMIUM`, after the logo has changed.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const home = join(import.meta.dirname, '..');
const source = readFileSync(join(home, 'src/ui/logo-paths.ts'), 'utf8');
const [, shoe] = /HORSESHOE_PATH = '([^']+)'/.exec(source);
const [, feet] = /HEELS_PATH = '([^']+)'/.exec(source);
const [, nails] = /NAILS_PATH = '([^']+)'/.exec(source);

function logo(line, nail) {
  const style = `fill="none" stroke="${line}" stroke-linecap="round" stroke-linejoin="round"`;
  const paths = `<path stroke-linecap="butt" stroke-width="5.4" d="${shoe}"/><path stroke-width="2.8" d="${feet}"/>`;
  return `<g ${style}>${paths}<path stroke="${nail}" stroke-width="1.8" d="${nails}"/></g>`;
}

/** On a ground of its own: `inner` is how much of the side the logo takes. */
function onGround(inner, radius) {
  const scale = inner * (512 / 32);
  const edge = (512 - 32 * scale) / 2;
  const ground = `<rect width="512" height="512" rx="${radius}" fill="#231f1b"/>`;
  const place = `translate(${edge} ${edge}) scale(${scale})`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 512 512">${ground}<g transform="${place}">${logo('#e39a63', '#231f1b')}</g></svg>`;
}

const plain = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><title>Hostler</title>${logo('#c9682c', '#fff')}</svg>`;
writeFileSync(join(home, 'public/icon.svg'), `${plain}\n`);

const browser = await chromium.launch({ executablePath: process.argv[2], args: ['--no-sandbox'] });
const page = await browser.newPage();
for (const [name, size, svg] of [
  ['icon-192', 192, onGround(0.72, 112)],
  ['icon-512', 512, onGround(0.72, 112)],
  // Systems cut these to shapes of their own: everything that matters is in the middle.
  ['icon-maskable-512', 512, onGround(0.56, 0)],
  ['icon-180', 180, onGround(0.66, 0)],
]) {
  await page.setViewportSize({ width: size, height: size });
  const image = `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`;
  const style = `margin:0;background:url(${image}) center/cover`;
  await page.setContent(`<body style="${style};width:${size}px;height:${size}px"></body>`);
  await page.screenshot({ path: join(home, `public/${name}.png`), omitBackground: true });
}
await browser.close();
