/** Hostile content in answers. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { findViolations } from './support/axe.ts';
import type { BrowserHarness } from './support/harness.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptThinking, scriptToolCall } from './support/model-script.ts';

const browserTest = sharedHarness();

/** A foreign origin: nothing listens there, and nothing may request it. */
const FOREIGN_ORIGIN = 'http://127.0.0.1:9';

const MARKUP = [
  '<script>document.title = "taken"</script>',
  '<img src="x" onerror="document.title = \'taken\'">',
  '<svg onload="document.title=\'taken\'"><script>document.title="taken"</script></svg>',
  '<math><mtext><table><mglyph><style><img src=x onerror=document.title="taken"></style></mglyph></table></mtext></math>',
  '<iframe srcdoc="<script>parent.document.title=1</script>"></iframe>',
  `<iframe src="${FOREIGN_ORIGIN}/frame"></iframe><object data="${FOREIGN_ORIGIN}/object"></object><embed src="${FOREIGN_ORIGIN}/embed">`,
  '<style>body { display: none } @import url("http://127.0.0.1:9/a.css");</style>',
  `<link rel="stylesheet" href="${FOREIGN_ORIGIN}/b.css"><link rel="prefetch" href="${FOREIGN_ORIGIN}/c">`,
  '<a href="javascript:document.title=1">or me</a>',
  `<form action="${FOREIGN_ORIGIN}/"><input name="q" autofocus><button>Send</button></form>`,
  `<base href="${FOREIGN_ORIGIN}/">`,
  `<meta http-equiv="refresh" content="0;url=${FOREIGN_ORIGIN}/">`,
  '<details open ontoggle="document.title=\'taken\'"><summary>Fold</summary></details>',
  '<div id="message" class="scroller" style="position:fixed;inset:0">over everything</div>',
  '<video poster="http://127.0.0.1:9/v.png" autoplay><source src="http://127.0.0.1:9/v.mp4"></video>',
];

const LINKS = [
  '[click me](javascript:document.title=1)',
  '[click me](JaVaScRiPt:alert%281%29)',
  '[click me](  java\tscript:alert(1))',
  '[click me](&#106;avascript:alert(1))',
  '[and me](data:text/html,<script>1</script>)',
  '[and me](vbscript:msgbox)',
  '[and me](file:///etc/passwd)',
  '[and me](blob:http://127.0.0.1/1)',
  '<javascript:alert(1)>',
  `![an image](${FOREIGN_ORIGIN}/pixel.png)`,
  '![an image](javascript:alert(1))',
  `[![both](${FOREIGN_ORIGIN}/p.png)](javascript:alert(1))`,
  '[by name][evil]\n\n[evil]: javascript:alert(1)',
];

const UNCLOSED = [
  '**bold _and soft `and code ~~and gone',
  '[a link](http://127.0.0.1:9/ "with a title',
  '| a | b |\n|---|',
  '<!-- never ends',
  '<![CDATA[ never ends',
  '```html\n<script>document.title="taken"</script>',
];

/** Bidirectional, invisible and combining characters. */
const DECEPTIVE_TEXT = [
  '\u202Egnp.exe\u202C',
  '\u2066left\u2069',
  'z\u0300'.padEnd(400, '\u0301'),
  '\u200B\uFEFFnothing',
];

/** Whether the rendered content has no forbidden elements. */
async function isHarmless(page: Page): Promise<void> {
  expect(await page.title()).not.toBe('taken');
  const main = page.getByRole('main');
  const things = 'iframe, script, style, base, meta, link, object, embed, video, math, form[action], details, #message';
  expect(await main.locator(things).count()).toBe(0);
  expect(await main.locator('[onerror], [onload], [ontoggle], [srcdoc], img[src^="http"]').count()).toBe(0);
  const links = await main
    .locator('a[href]')
    .evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).protocol));
  expect(links.filter((protocol) => !['http:', 'https:', 'mailto:'].includes(protocol))).toEqual([]);
  expect(new URL(page.url()).port).not.toBe('9');
}

/** Whether the page still responds. */
async function isAlive(page: Page): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill('are you there?');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('You said: are you there?').waitFor();
}

async function answer(harness: BrowserHarness, ...lines: string[]): Promise<Page> {
  const { uri, chat } = await (await harness.connectClient()).createSession();
  const page = await harness.openPage(sessionPath(uri));
  await chat.send(scriptMessage(...lines, scriptText('That was all.')));
  await page
    .getByRole('paragraph')
    .filter({ hasText: /^That was all\.$/ })
    .waitFor();
  return page;
}

test(
  'hostile Markdown stays text: no script, no request, no navigation',
  browserTest(async (harness) => {
    const all = [...MARKUP, ...LINKS, ...DECEPTIVE_TEXT].join('\n\n');
    // As an answer, as reasoning, and as command output.
    const printed = `${MARKUP.join('\n')}\n\u001b]0;taken\u0007\u001b[31mred\n`;
    writeFileSync(join(harness.host.path('work'), 'hostile.txt'), printed);
    const print = scriptToolCall('Bash', { command: 'touch seen && cat hostile.txt' });
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(
      scriptMessage(
        scriptText(all),
        scriptThinking(all),
        ...UNCLOSED.map(scriptText),
        print,
        scriptText('That was all.'),
      ),
    );
    await page.getByRole('group', { name: 'Allow Bash?' }).getByRole('button', { name: 'Allow once' }).click();
    await page
      .getByRole('paragraph')
      .filter({ hasText: /^That was all\.$/ })
      .waitFor();
    for (const name of [/^Thought/, /^Ran touch/]) await page.getByRole('button', { name }).click();
    await page.getByRole('group', { name: 'Output' }).getByText('red').waitFor();
    // The source stays readable.
    await page.getByText('<script>document.title = "taken"</script>').first().waitFor();
    await isHarmless(page);
    expect(await findViolations(page)).toEqual([]);
    // Text that looks like an unsafe link does nothing.
    for (const text of [/^click me$/, /^and me$/]) {
      await page.getByRole('feed').getByRole('paragraph').filter({ hasText: text }).first().click();
    }
    await isHarmless(page);
    await isAlive(page);
    // The guard has seen neither a request nor a policy violation.
  }),
);

test(
  'an oversized answer does not freeze the page',
  browserTest(async (harness) => {
    const quotes = `${'>'.repeat(10_000)}deep`;
    const lists = `${'- '.repeat(400)}deeper`;
    const row = `|${'cell|'.repeat(200)}`;
    const table = [row, `|${'---|'.repeat(200)}`, ...Array.from({ length: 200 }, () => row)].join('\n');
    const stars = '*a**b'.repeat(5_000);
    const brackets = `${'['.repeat(20_000)}x${']('.repeat(20_000)}`;
    const page = await answer(harness, ...[quotes, lists, table, stars, brackets, '`'.repeat(30_001)].map(scriptText));
    await isHarmless(page);
    const elements = await page.getByRole('main').evaluate((main) => main.querySelectorAll('*').length);
    expect(elements).toBeLessThan(60_000);
    await isAlive(page);
  }),
);
