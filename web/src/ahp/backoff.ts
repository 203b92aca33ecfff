/** How long to wait before trying again. */

export interface Backoff {
  /** Milliseconds before the second attempt, at most. */
  readonly initialDelayMs: number;
  /** Milliseconds, at most, however often it failed. */
  readonly maxDelayMs: number;
}

export const DEFAULT_BACKOFF: Backoff = { initialDelayMs: 500, maxDelayMs: 30_000 };

/**
 * Twice as long each time, and somewhere between half of it and all of it: many clients of a host that comes back do not
 * come back in the same moment.
 */
export function backoffDelay(
  failures: number,
  random: number,
  { initialDelayMs, maxDelayMs }: Backoff = DEFAULT_BACKOFF,
): number {
  const ceiling = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.max(0, failures - 1));
  return ceiling / 2 + (ceiling / 2) * random;
}
