/** How long to wait before trying again. */

export interface Backoff {
  /** Milliseconds before the second attempt, at most. */
  readonly first: number;
  /** Milliseconds, at most, however often it failed. */
  readonly most: number;
}

export const BACKOFF: Backoff = { first: 500, most: 30_000 };

/**
 * Twice as long each time, and somewhere between half of it and all of it: many clients of a host that comes back do not
 * come back in the same moment.
 */
export function delay(failures: number, random: number, { first, most }: Backoff = BACKOFF): number {
  const longest = Math.min(most, first * 2 ** Math.max(0, failures - 1));
  return longest / 2 + (longest / 2) * random;
}
