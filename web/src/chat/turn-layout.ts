/**
 * Where turns are in a long chat of which only a few are on the page: those that were shown are as high as they were, all
 * others as high as somebody guesses. What a person looks at is a place at a turn and not a distance from the top, so that
 * nothing moves when turns above it are measured or come in.
 */

/** What a person looks at: the end, wherever it goes, or some distance below the top of a turn. */
export type ScrollAnchor =
  | { readonly at: 'end' }
  | { readonly at: 'turn'; readonly id: string; readonly offset: number };

export const ANCHOR_END: ScrollAnchor = { at: 'end' };

/** The turns from one index up to another one. */
export interface TurnRange {
  readonly from: number;
  readonly to: number;
}

/** Room above the first turn and below the last one. */
export interface LayoutMargins {
  readonly above: number;
  readonly below: number;
}

/** How near to the end is at the end. */
const NEAR_END_PX = 32;

export class TurnLayout {
  readonly #margins: LayoutMargins;
  readonly #measured = new Map<string, number>();
  #ids: readonly string[] = [];
  #index = new Map<string, number>();
  #estimate: (index: number) => number = () => 0;
  /** Where each turn begins, and the end. */
  #tops: number[] = [0];
  #isStale = true;

  constructor(margins: LayoutMargins) {
    this.#margins = margins;
  }

  /** Takes the turns that there are; those that were measured before keep their heights. */
  arrange(ids: readonly string[], estimate: (index: number) => number): void {
    this.#ids = ids;
    this.#index = new Map(ids.map((id, at) => [id, at]));
    this.#estimate = estimate;
    this.#isStale = true;
  }

  /** Notes how high a turn is; whether that is news. */
  measure(id: string, height: number): boolean {
    if (this.#measured.get(id) === height) return false;
    this.#measured.set(id, height);
    this.#isStale = true;
    return true;
  }

  isMeasured(id: string): boolean {
    return this.#measured.has(id);
  }

  /** All heights were those of another width: they are guesses now. */
  clearMeasurements(): void {
    this.#measured.clear();
    this.#isStale = true;
  }

  indexOf(id: string): number {
    return this.#index.get(id) ?? -1;
  }

  /** Where a turn begins, from the first one's top. */
  top(index: number): number {
    const tops = this.#computeTops();
    return tops[Math.max(0, Math.min(index, tops.length - 1))] ?? 0;
  }

  /** All turns together. */
  get height(): number {
    return this.top(this.#ids.length);
  }

  /** Everything that can be scrolled through. */
  get scrollHeight(): number {
    return this.#margins.above + this.height + this.#margins.below;
  }

  /** The turn at a height, or the nearest one. */
  indexAt(y: number): number {
    const tops = this.#computeTops();
    let low = 0;
    let high = Math.max(0, this.#ids.length - 1);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** How far one has scrolled who looks at a place. */
  scrollFor(anchor: ScrollAnchor, viewport: number): number {
    const maxScroll = Math.max(0, this.scrollHeight - viewport);
    if (anchor.at === 'end') return maxScroll;
    const index = this.indexOf(anchor.id);
    if (index < 0) return maxScroll;
    return Math.max(0, Math.min(maxScroll, this.#margins.above + this.top(index) + anchor.offset));
  }

  /** What one looks at who has scrolled so far. */
  anchorAt(scroll: number, viewport: number): ScrollAnchor {
    return scroll >= this.scrollHeight - viewport - NEAR_END_PX
      ? ANCHOR_END
      : (this.turnAnchorAt(scroll) ?? ANCHOR_END);
  }

  /** The turn at the upper edge of what one sees who has scrolled so far. */
  turnAnchorAt(scroll: number): ScrollAnchor | undefined {
    const y = scroll - this.#margins.above;
    const index = this.indexAt(y);
    const id = this.#ids[index];
    return id === undefined ? undefined : { at: 'turn', id, offset: y - this.top(index) };
  }

  /** The turns that have to be on the page. */
  visibleRange(scroll: number, viewport: number, overscan: number): TurnRange {
    if (this.#ids.length === 0) return { from: 0, to: 0 };
    const y = scroll - this.#margins.above;
    return { from: this.indexAt(y - overscan), to: this.indexAt(y + viewport + overscan) + 1 };
  }

  /** The turn that `by` steps lead to; one that has begun above is a step away itself. */
  turnAfterStep(scroll: number, by: 1 | -1): string | undefined {
    const y = scroll - this.#margins.above;
    // A turn at the upper edge is the one that a person is at, even if a little of the one before is seen.
    const index = this.indexAt(y + NEAR_END_PX);
    const isInside = y - this.top(index) > NEAR_END_PX;
    return this.#ids[by > 0 ? index + 1 : isInside ? index : index - 1];
  }

  #computeTops(): readonly number[] {
    if (!this.#isStale) return this.#tops;
    this.#isStale = false;
    const tops = new Array<number>(this.#ids.length + 1);
    let top = 0;
    for (const [index, id] of this.#ids.entries()) {
      tops[index] = top;
      top += this.#measured.get(id) ?? this.#estimate(index);
    }
    tops[this.#ids.length] = top;
    this.#tops = tops;
    return tops;
  }
}
