/** How long calls take. Hosts do not tell, so it is what this page has seen: a page that came later knows less. */

import { setBounded } from './bounded-map.ts';

const startTimes = new Map<string, number>();
const durations = new Map<string, number>();

/** A call goes to work before somebody's eyes. */
export function recordStart(cardId: string, now: number): void {
  if (!startTimes.has(cardId)) setBounded(startTimes, cardId, now);
}

/** How long a call has been at work, if its beginning was seen. */
export function elapsedMs(cardId: string, now: number): number | undefined {
  const startedAt = startTimes.get(cardId);
  return startedAt === undefined ? undefined : now - startedAt;
}

/** A call has just ended. */
export function recordEnd(cardId: string, now: number): void {
  const startedAt = startTimes.get(cardId);
  if (startedAt !== undefined && !durations.has(cardId)) setBounded(durations, cardId, now - startedAt);
}

/** How long a call took, if somebody has seen it. */
export function callDurationMs(cardId: string): number | undefined {
  return durations.get(cardId);
}
