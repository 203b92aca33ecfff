/** `cargo xtask bench web`: measures streaming smoothness, time to interactive of a long chat, and page size. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { launch } from '../browser/support/chromium.ts';
import { writeExternalTranscript } from '../browser/support/external-transcript.ts';
import { BrowserHarness } from '../browser/support/harness.ts';
import { sessionPath } from '../browser/support/locations.ts';
import { hasEndedTurns, type SecondClient } from '../browser/support/second-client.ts';
import type { Uri } from '../src/ahp/index.ts';
import { until } from '../tests/support/fake-server.ts';
import { watchFrames } from './frame-times.ts';
import { type BenchRow, formatTable, percentile } from './report-table.ts';

const DIST = join(import.meta.dirname, '../dist');
const BUDGET = 250;
const ROUNDS = 7;
/** Turns of the chat that receives the stream: many, but within the model's context window. */
const LONG_TRANSCRIPT_TURNS = 400;
const DELTAS = 2_000;
/** An answer of paragraphs with a code block in every fifth place. */
const ANSWER = Array.from({ length: DELTAS / 20 }, (_, at) => {
  const text = Array.from({ length: 20 }, (_, index) => (index % 7 === 3 ? '**word**' : 'word')).join(' ');
  return at % 5 === 4 ? `\`\`\`rust\\nlet ${text.replaceAll('*', '')};\\n\`\`\`` : `${text}.`;
}).join('\\n\\n');
/** Idle time in milliseconds. */
const IDLE = 5_000;

export async function main(...options: string[]): Promise<void> {
  const turns = Number(options[options.indexOf('--turns') + 1] ?? 5_000) || 5_000;
  const browser = await launch();
  try {
    const harness = await BrowserHarness.create(browser);
    try {
      const client = await harness.connectClient();
      const rows = [...(await streaming(harness, client)), ...(await opening(harness, client, turns)), size()];
      harness.guard.check();
      process.stdout.write(`${formatTable(rows)}\n`);
    } finally {
      await harness.dispose();
    }
  } finally {
    await browser.close();
  }
}

async function streaming(harness: BrowserHarness, client: SecondClient): Promise<BenchRow[]> {
  const { uri, chat } = await client.openSession(
    await client.waitUntilListed(writeExternalTranscript(harness.host, LONG_TRANSCRIPT_TURNS)),
  );
  const page = await harness.openPage(sessionPath(uri));
  await page.getByText(`answer ${LONG_TRANSCRIPT_TURNS}:`).waitFor();
  const rest = await watchFrames(page);
  await page.waitForTimeout(IDLE);
  const idle = await rest();

  const streamed = async (what: string, script: string): Promise<BenchRow[]> => {
    const turns = chat.view.value.state?.turns.length ?? 0;
    await chat.send({ text: `!pace 4\n${script}` });
    await until(chat.view, ({ state }) => (state?.activeTurn?.responseParts.length ?? 0) > 0);
    const startedAt = performance.now();
    const busy = await watchFrames(page);
    await until(chat.view, hasEndedTurns(turns + 1));
    const rate = Math.round((DELTAS * 1_000) / (performance.now() - startedAt));
    const { dropped, p99, longest } = await busy();
    return [
      {
        what: `${what}, ${rate} deltas/s: frames dropped`,
        unit: '%',
        hostler: dropped,
        baseline: ['idle', idle.dropped],
      },
      { what: 'between two frames, p99', unit: 'ms', hostler: p99, baseline: ['idle', idle.p99] },
      { what: 'between two frames, longest', unit: 'ms', hostler: longest, baseline: ['idle', idle.longest] },
    ];
  };
  const usual = await streamed(`an answer in a chat of ${LONG_TRANSCRIPT_TURNS} turns`, `!say ${ANSWER}`);
  const [worst] = await streamed('one endless paragraph', `!deltas ${DELTAS}`);
  return [...usual, ...(worst ? [worst] : [])];
}

async function opening(harness: BrowserHarness, client: SecondClient, turns: number): Promise<BenchRow[]> {
  const long = await client.waitUntilListed(writeExternalTranscript(harness.host, turns));
  const short = await client.waitUntilListed(writeExternalTranscript(harness.host, 1));
  const firstLong = await interactive(harness, long, turns);
  const firstShort = await interactive(harness, short, 1);
  const [later, laterShort]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    later.push(await interactive(harness, long, turns));
    laterShort.push(await interactive(harness, short, 1));
  }
  return [
    {
      what: `time to interactive, ${turns} turns, cold browser, p50`,
      unit: 'ms',
      hostler: percentile(later, 50),
      baseline: ['1 turn', percentile(laterShort, 50)],
    },
    {
      what: 'the same when the host has never opened it either',
      unit: 'ms',
      hostler: firstLong,
      baseline: ['1 turn', firstShort],
    },
  ];
}

/** Milliseconds from opening a URL in a new browser until the last answer is visible and a typed letter appears. */
async function interactive(harness: BrowserHarness, uri: Uri, turns: number): Promise<number> {
  const context = await harness.signIn(await harness.newContext());
  const page = await context.newPage();
  const startedAt = performance.now();
  await page.goto(harness.origin + sessionPath(uri), { waitUntil: 'commit' });
  await page.getByText(`answer ${turns}:`).waitFor();
  const message = page.getByRole('textbox', { name: 'Message' });
  await message.press('x');
  if (!(await message.inputValue()).includes('x')) throw new Error('What was typed has not arrived.');
  const measured = performance.now() - startedAt;
  await context.close();
  return measured;
}

function size(): BenchRow {
  const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.(html|js|css)$/.test(name),
  );
  const bytes = files.reduce((sum, name) => sum + gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length, 0);
  return {
    what: 'the page, compressed with gzip',
    unit: 'kB',
    hostler: bytes / 1_000,
    baseline: ['the budget', BUDGET],
    target: BUDGET,
  };
}
