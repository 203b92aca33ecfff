/** Which rows of a long list are rendered. Pure. */

/** Offset of each row, and of the end. */
export function rowOffsets(heights: readonly number[]): readonly number[] {
  const offsets = [0];
  let end = 0;
  for (const height of heights) {
    end += height;
    offsets.push(end);
  }
  return offsets;
}

/** The rows from `first` up to `end`, exclusive. */
export interface RowRange {
  readonly first: number;
  readonly end: number;
}

export function visibleRows(offsets: readonly number[], top: number, height: number, overscan: number): RowRange {
  const count = offsets.length - 1;
  const first = rowAt(offsets, Math.max(0, top - overscan));
  const last = rowAt(offsets, top + height + overscan);
  return { first: Math.min(first, count), end: Math.min(last + 1, count) };
}

/** The scroll offset that makes a row visible; unchanged if it is visible. */
export function scrollTopForRow(offsets: readonly number[], row: number, top: number, height: number): number {
  const begin = offsets[row] ?? 0;
  const end = offsets[row + 1] ?? begin;
  if (begin < top) return begin;
  return end > top + height ? end - height : top;
}

/** The row at an offset, by binary search. */
function rowAt(offsets: readonly number[], y: number): number {
  let low = 0;
  let high = Math.max(0, offsets.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}
