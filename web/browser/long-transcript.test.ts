/** Long transcripts and fast answers. */

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { writeExternalTranscript } from './support/external-transcript.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText } from './support/model-script.ts';

const browserTest = sharedHarness();

/** Distance of the conversation from its end in pixels. */
function distance(page: Page): Promise<number> {
  return page
    .getByRole('region', { name: 'Conversation' })
    .evaluate((list) => Math.round(list.scrollHeight - list.scrollTop - list.clientHeight));
}

/** Vertical position of a text on the screen. */
async function top(page: Page, text: string): Promise<number> {
  const box = await page.getByRole('feed').getByText(text, { exact: true }).boundingBox();
  if (!box) throw new Error(`${text} is not on the page.`);
  return Math.round(box.y);
}

test(
  'a chat of 5 000 turns opens at its end, renders few turns, and loads older ones on scroll',
  browserTest(async (harness) => {
    const client = await harness.connectClient();
    const page = await harness.openPage(
      sessionPath(await client.waitUntilListed(writeExternalTranscript(harness.host, 5_000))),
    );
    await page.getByText('answer 5000:').waitFor();
    await expect.poll(() => distance(page)).toBeLessThan(2);
    const elements = () => page.getByRole('main').evaluate((main) => main.querySelectorAll('*').length);
    expect(await page.getByRole('article').count()).toBeLessThan(40);
    expect(await elements()).toBeLessThan(2_000);

    // The chat opens with its last 50 turns; older ones load on scroll.
    const list = page.getByRole('region', { name: 'Conversation' });
    await list.hover();
    const questions = page.getByRole('feed').getByText(/^question \d+$/);
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, -4_000);
        const [first] = await questions.allTextContents();
        return Number(first?.slice('question '.length));
      })
      .toBeLessThan(4_800);
    await expect.poll(() => page.getByText('answer 5000:').count()).toBe(0);
    expect(await page.getByRole('article').count()).toBeLessThan(40);
    expect(await elements()).toBeLessThan(2_000);

    // The visible turn does not move while older turns load above it.
    const [seen] = await questions.allTextContents();
    if (!seen) throw new Error('There is no turn on the page.');
    const before = await top(page, seen);
    await page.mouse.wheel(0, -200);
    await expect.poll(() => top(page, seen)).toBe(before + 200);

    await page.getByRole('button', { name: 'Jump to latest' }).click();
    await page.getByText('answer 5000:').waitFor();
    await expect.poll(() => distance(page)).toBeLessThan(2);
    await page.getByRole('textbox', { name: 'Message' }).fill('and then?');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: and then?').waitFor();
    await expect.poll(() => distance(page)).toBeLessThan(2);
  }),
);

test(
  'the view follows an answer of 200 deltas per second, and stays put after scrolling away',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createAnsweredSession(scriptText('Here it begins.'));
    const page = await harness.openPage(sessionPath(uri));
    await page.getByText('Here it begins.', { exact: true }).waitFor();
    await chat.send(scriptMessage('!pace 5', '!deltas 1500 a bit more text \\n\\n', scriptText('That was all of it.')));
    await expect.poll(() => page.getByText('a bit more text').count()).toBeGreaterThan(60);
    // Every painted frame is at the end.
    const far = await page.getByRole('region', { name: 'Conversation' }).evaluate(async (list) => {
      const seen: number[] = [];
      for (let frame = 0; frame < 60; frame += 1) {
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        seen.push(list.scrollHeight - list.scrollTop - list.clientHeight);
      }
      return Math.max(...seen);
    });
    expect(far).toBeLessThan(80);

    await page.getByRole('region', { name: 'Conversation' }).hover();
    await page.mouse.wheel(0, -100_000);
    await expect.poll(() => page.getByText('Here it begins.', { exact: true }).count()).toBe(1);
    const jump = page.getByRole('button', { name: 'Jump to latest' });
    await jump.waitFor();
    const [before, pieces] = [await top(page, 'Here it begins.'), await distance(page)];
    await expect.poll(() => distance(page)).toBeGreaterThan(pieces + 200);
    expect(await top(page, 'Here it begins.')).toBe(before);
    await jump.click();
    await expect.poll(() => distance(page)).toBeLessThan(80);
    await page.getByText('That was all of it.', { exact: true }).waitFor();
    await expect.poll(() => distance(page)).toBeLessThan(2);
    await expect.poll(() => jump.count()).toBe(0);
  }),
);
