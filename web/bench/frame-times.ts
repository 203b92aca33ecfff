/** Frame statistics of a page: dropped and late frames. */

import type { Page } from 'playwright-core';
import { percentile } from './report-table.ts';

/** Frame interval at 60 Hz. */
const FRAME_MS = 1_000 / 60;

export interface FrameStats {
  /** Percentage of frames that were dropped. */
  readonly dropped: number;
  /** Time between two frames in milliseconds. */
  readonly p99: number;
  readonly longest: number;
}

/** Starts recording frame times; the result stops it. */
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

/** Computes statistics from frame times. */
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
