/** How long calls take. Hosts do not tell, so it is what this page has seen: a page that came later knows less. */

import { remember } from './bounded-map.ts';

const began = new Map<string, number>();
const lasted = new Map<string, number>();

/** A call goes to work before somebody's eyes. */
export function begun(place: string, now: number): void {
  if (!began.has(place)) remember(began, place, now);
}

/** How long a call has been at work, if its beginning was seen. */
export function elapsed(place: string, now: number): number | undefined {
  const then = began.get(place);
  return then === undefined ? undefined : now - then;
}

/** A call has just ended. */
export function ended(place: string, now: number): void {
  const then = began.get(place);
  if (then !== undefined && !lasted.has(place)) remember(lasted, place, now - then);
}

/** How long a call took, if somebody has seen it. */
export function durationOf(place: string): number | undefined {
  return lasted.get(place);
}
