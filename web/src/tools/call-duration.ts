/** Durations of tool calls as observed by this page, since hosts do not report them. */

import { setBounded } from './bounded-map.ts';

const startTimes = new Map<string, number>();
const durations = new Map<string, number>();

/** Records the start of a call. */
export function recordStart(cardId: string, now: number): void {
  if (!startTimes.has(cardId)) setBounded(startTimes, cardId, now);
}

/** Elapsed time of a call with an observed start. */
export function elapsedMs(cardId: string, now: number): number | undefined {
  const startedAt = startTimes.get(cardId);
  return startedAt === undefined ? undefined : now - startedAt;
}

/** Records the end of a call. */
export function recordEnd(cardId: string, now: number): void {
  const startedAt = startTimes.get(cardId);
  if (startedAt !== undefined && !durations.has(cardId)) setBounded(durations, cardId, now - startedAt);
}

/** Duration of a call with an observed start and end. */
export function callDurationMs(cardId: string): number | undefined {
  return durations.get(cardId);
}
