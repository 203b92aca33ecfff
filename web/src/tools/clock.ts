/** How long calls take. Hosts do not tell, so it is what this page has seen: a page that came later knows less. */

const began = new Map<string, number>();
const lasted = new Map<string, number>();

/** A call is at work. How long, so far. */
export function atWork(toolCallId: string, now: number): number {
  const then = began.get(toolCallId) ?? now;
  began.set(toolCallId, then);
  return now - then;
}

/** A call has just ended. */
export function ended(toolCallId: string, now: number): void {
  const then = began.get(toolCallId);
  if (then !== undefined && !lasted.has(toolCallId)) lasted.set(toolCallId, now - then);
}

/** How long a call took, if somebody has seen it. */
export function durationOf(toolCallId: string): number | undefined {
  return lasted.get(toolCallId);
}
