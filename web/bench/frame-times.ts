/** Pictures that a page should have drawn and did not. */

import type { Page } from 'playwright-core';
import { percentile } from './report-table.ts';

/** A screen's rhythm, in milliseconds. */
const FRAME_MS = 1_000 / 60;

export interface FrameStats {
  /** Of a hundred pictures that were due, so many were not drawn. */
  readonly dropped: number;
  /** Between two pictures, in milliseconds. */
  readonly p99: number;
  readonly longest: number;
}

/** Begins to note when pictures are drawn; the result ends it. */
export async function watchFrames(page: Page): Promise<() => Promise<FrameStats>> {
  const times = await page.evaluateHandle(() => {
    const noted: number[] = [];
    const note = (at: number) => {
      noted.push(at);
      requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
    return noted;
  });
  return async () => frameStats(await times.evaluate((noted) => [...noted]));
}

/** What the times of pictures say. */
export function frameStats(times: readonly number[]): FrameStats {
  const intervals = times.slice(1).map((at, before) => at - (times[before] ?? at));
  const missed = intervals.reduce((sum, interval) => sum + Math.max(0, Math.round(interval / FRAME_MS) - 1), 0);
  const due = intervals.length + missed;
  return {
    dropped: due ? (100 * missed) / due : 0,
    p99: percentile(intervals, 99),
    longest: Math.max(0, ...intervals),
  };
}
