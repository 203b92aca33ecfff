/** Reconnect backoff: computes the delay before the next attempt. Knows neither sockets nor timers. */

export interface Backoff {
  /** Maximum delay before the second attempt. */
  readonly initialDelayMs: number;
  /** Maximum delay after any number of failures. */
  readonly maxDelayMs: number;
}

export const DEFAULT_BACKOFF: Backoff = { initialDelayMs: 500, maxDelayMs: 30_000 };

/** Doubles the delay with each failure, with jitter between 50% and 100%, so that clients do not reconnect at the same moment. */
export function backoffDelay(
  failures: number,
  random: number,
  { initialDelayMs, maxDelayMs }: Backoff = DEFAULT_BACKOFF,
): number {
  const ceiling = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.max(0, failures - 1));
  return ceiling / 2 + (ceiling / 2) * random;
}
