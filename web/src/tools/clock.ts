/** How long calls take. Hosts do not tell, so it is what this page has seen: a page that came later knows less. */

const began = new Map<string, number>();
const lasted = new Map<string, number>();

/** A call is at work. How long, so far. */
export function atWork(place: string, now: number): number {
  const then = began.get(place) ?? now;
  began.set(place, then);
  return now - then;
}

/** A call has just ended. */
export function ended(place: string, now: number): void {
  const then = began.get(place);
  if (then !== undefined && !lasted.has(place)) lasted.set(place, now - then);
}

/** How long a call took, if somebody has seen it. */
export function durationOf(place: string): number | undefined {
  return lasted.get(place);
}
