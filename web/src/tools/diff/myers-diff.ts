/** Myers diff of two sequences with a bounded number of differences. Pure. */

/** A range of both sequences: equal, or replaced. */
export interface DiffRange {
  readonly kind: 'same' | 'changed';
  readonly before: readonly [from: number, to: number];
  readonly after: readonly [from: number, to: number];
}

/** Maximum number of differences; beyond it the range is reported as replaced, since memory grows quadratically. */
const MAX_DIFFERENCES = 1_500;

/** Compares elements by identity. */
export function diffSequences<T>(
  before: readonly T[],
  after: readonly T[],
  maxDifferences = MAX_DIFFERENCES,
): readonly DiffRange[] {
  let start = 0;
  const shorter = Math.min(before.length, after.length);
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;

  const path = findMatches(
    before.slice(start, before.length - end),
    after.slice(start, after.length - end),
    maxDifferences,
  );
  const pairs: [number, number][] = [];
  for (let at = 0; at < start; at += 1) pairs.push([at, at]);
  for (const [one, other] of path) pairs.push([one + start, other + start]);
  for (let at = end; at > 0; at -= 1) pairs.push([before.length - at, after.length - at]);
  return toRanges(pairs, before.length, after.length);
}

/** Matching index pairs in ascending order; empty if there are too many differences. */
function findMatches<T>(
  before: readonly T[],
  after: readonly T[],
  maxDifferences: number,
): readonly (readonly [number, number])[] {
  const [width, height] = [before.length, after.length];
  if (width === 0 || height === 0) return [];
  const bound = Math.min(maxDifferences, width + height);
  // Furthest x on each diagonal, offset by `bound`, with one spare on each side.
  const reach = new Int32Array(2 * bound + 3);
  const middle = bound + 1;
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= bound; edits += 1) {
    // The diagonals of the previous round, for backtracking.
    trace.push(reach.slice(middle - edits - 1, middle + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = nextX(reach, middle, diagonal, edits);
      while (x < width && x - diagonal < height && before[x] === after[x - diagonal]) x += 1;
      reach[middle + diagonal] = x;
      if (x >= width && x - diagonal >= height) return backtrack(trace, width, height);
    }
  }
  return [];
}

/** Whether the step to a diagonal is an insertion (from above) or a deletion. */
function isInsertion(reach: Int32Array, middle: number, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  return diagonal !== edits && (reach[middle + diagonal - 1] ?? 0) < (reach[middle + diagonal + 1] ?? 0);
}

/** The x at which a round starts on a diagonal. */
function nextX(reach: Int32Array, middle: number, diagonal: number, edits: number): number {
  const down = isInsertion(reach, middle, diagonal, edits);
  return down ? (reach[middle + diagonal + 1] ?? 0) : (reach[middle + diagonal - 1] ?? 0) + 1;
}

function backtrack(trace: readonly Int32Array[], width: number, height: number): readonly [number, number][] {
  const pairs: [number, number][] = [];
  let [x, y] = [width, height];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits] ?? new Int32Array();
    const diagonal = x - y;
    const begin = edits === 0 ? 0 : nextX(reach, edits + 1, diagonal, edits);
    while (x > begin) {
      x -= 1;
      y -= 1;
      pairs.push([x, y]);
    }
    if (isInsertion(reach, edits + 1, diagonal, edits)) y -= 1;
    else x -= 1;
  }
  return pairs.reverse();
}

function toRanges(pairs: readonly (readonly [number, number])[], width: number, height: number): DiffRange[] {
  const result: DiffRange[] = [];
  let [x, y] = [0, 0];
  let at = 0;
  while (at < pairs.length || x < width || y < height) {
    const [nextX, nextY] = pairs[at] ?? [width, height];
    if (nextX > x || nextY > y) result.push({ kind: 'changed', before: [x, nextX], after: [y, nextY] });
    let length = 0;
    while (pairs[at + length]?.[0] === nextX + length && pairs[at + length]?.[1] === nextY + length) length += 1;
    if (length > 0) result.push({ kind: 'same', before: [nextX, nextX + length], after: [nextY, nextY + length] });
    [x, y] = [nextX + length, nextY + length];
    at += length;
  }
  return result;
}
