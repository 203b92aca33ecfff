/** `cargo xtask bench web`: how smoothly the page streams, how soon a long chat can be used, and how large the page is. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { launch } from '../browser/support/chromium.ts';
import { past } from '../browser/support/external-transcript.ts';
import { Stage } from '../browser/support/harness.ts';
import { address } from '../browser/support/locations.ts';
import { type Client, ended } from '../browser/support/second-client.ts';
import type { Uri } from '../src/ahp/index.ts';
import { until } from '../tests/support/fake-server.ts';
import { watchFrames } from './frame-times.ts';
import { percentile, type Row, table } from './report-table.ts';

const DIST = join(import.meta.dirname, '../dist');
const BUDGET = 250;
const ROUNDS = 7;
/** Turns of the chat that is streamed into: many, and few enough for a model's window. */
const LONG = 400;
const DELTAS = 2_000;
/** An answer of as many words, as models write them: paragraphs, and code in every fifth place. */
const ANSWER = Array.from({ length: DELTAS / 20 }, (_, at) => {
  const words = Array.from({ length: 20 }, (_, word) => (word % 7 === 3 ? '**word**' : 'word')).join(' ');
  return at % 5 === 4 ? `\`\`\`rust\\nlet ${words.replaceAll('*', '')};\\n\`\`\`` : `${words}.`;
}).join('\\n\\n');
/** Milliseconds without anything to do. */
const IDLE = 5_000;

export async function main(...options: string[]): Promise<void> {
  const turns = Number(options[options.indexOf('--turns') + 1] ?? 5_000) || 5_000;
  const browser = await launch();
  try {
    const stage = await Stage.begin(browser);
    try {
      const client = await stage.client();
      const rows = [...(await streaming(stage, client)), ...(await opening(stage, client, turns)), size()];
      stage.guard.check();
      process.stdout.write(`${table(rows)}\n`);
    } finally {
      await stage.end();
    }
  } finally {
    await browser.close();
  }
}

async function streaming(stage: Stage, client: Client): Promise<Row[]> {
  const { uri, chat } = await client.open(await client.listed(past(stage.hostler, LONG)));
  const page = await stage.open(address(uri));
  await page.getByText(`answer ${LONG}:`).waitFor();
  const rest = await watchFrames(page);
  await page.waitForTimeout(IDLE);
  const idle = await rest();

  const streamed = async (what: string, script: string): Promise<Row[]> => {
    const turns = chat.view.value.state?.turns.length ?? 0;
    await chat.send({ text: `!pace 4\n${script}` });
    await until(chat.view, ({ state }) => (state?.activeTurn?.responseParts.length ?? 0) > 0);
    const begun = performance.now();
    const busy = await watchFrames(page);
    await until(chat.view, ended(turns + 1));
    const rate = Math.round((DELTAS * 1_000) / (performance.now() - begun));
    const { dropped, p99, longest } = await busy();
    return [
      {
        what: `${what}, ${rate} deltas/s: frames dropped`,
        unit: '%',
        hostler: dropped,
        beside: ['idle', idle.dropped],
      },
      { what: 'between two frames, p99', unit: 'ms', hostler: p99, beside: ['idle', idle.p99] },
      { what: 'between two frames, longest', unit: 'ms', hostler: longest, beside: ['idle', idle.longest] },
    ];
  };
  const usual = await streamed(`an answer in a chat of ${LONG} turns`, `!say ${ANSWER}`);
  const [worst] = await streamed('one endless paragraph', `!deltas ${DELTAS}`);
  return [...usual, ...(worst ? [worst] : [])];
}

async function opening(stage: Stage, client: Client, turns: number): Promise<Row[]> {
  const long = await client.listed(past(stage.hostler, turns));
  const short = await client.listed(past(stage.hostler, 1));
  const firstLong = await interactive(stage, long, turns);
  const firstShort = await interactive(stage, short, 1);
  const [later, laterShort]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    later.push(await interactive(stage, long, turns));
    laterShort.push(await interactive(stage, short, 1));
  }
  return [
    {
      what: `time to interactive, ${turns} turns, cold browser, p50`,
      unit: 'ms',
      hostler: percentile(later, 50),
      beside: ['1 turn', percentile(laterShort, 50)],
    },
    {
      what: 'the same when the host has never opened it either',
      unit: 'ms',
      hostler: firstLong,
      beside: ['1 turn', firstShort],
    },
  ];
}

/** Milliseconds until somebody who has opened an address in a new browser sees the last answer and has typed a letter. */
async function interactive(stage: Stage, uri: Uri, turns: number): Promise<number> {
  const context = await stage.signIn(await stage.context());
  const page = await context.newPage();
  const begun = performance.now();
  await page.goto(stage.origin + address(uri), { waitUntil: 'commit' });
  await page.getByText(`answer ${turns}:`).waitFor();
  const message = page.getByRole('textbox', { name: 'Message' });
  await message.press('x');
  if (!(await message.inputValue()).includes('x')) throw new Error('What was typed has not arrived.');
  const taken = performance.now() - begun;
  await context.close();
  return taken;
}

function size(): Row {
  const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.(html|js|css)$/.test(name),
  );
  const bytes = files.reduce((sum, name) => sum + gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length, 0);
  return {
    what: 'the page, compressed with gzip',
    unit: 'kB',
    hostler: bytes / 1_000,
    beside: ['the budget', BUDGET],
    target: BUDGET,
  };
}
