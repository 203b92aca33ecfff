/**
 * Virtual layout of turns: measured heights for rendered turns, estimates for others. The scroll position is anchored to
 * a turn instead of a distance from the top, so that nothing moves when turns above are measured or loaded. Knows neither
 * the DOM nor Svelte.
 */

/** The scroll anchor: the end, or an offset from the top of a turn. */
export type ScrollAnchor =
  | { readonly at: 'end' }
  | { readonly at: 'turn'; readonly id: string; readonly offset: number };

export const ANCHOR_END: ScrollAnchor = { at: 'end' };

/** The turns from one index up to another, exclusive. */
export interface TurnRange {
  readonly from: number;
  readonly to: number;
}

/** Margins above the first and below the last turn. */
export interface LayoutMargins {
  readonly above: number;
  readonly below: number;
}

/** Distance from the end that counts as the end. */
const NEAR_END_PX = 32;

export class TurnLayout {
  readonly #margins: LayoutMargins;
  readonly #measured = new Map<string, number>();
  #ids: readonly string[] = [];
  #index = new Map<string, number>();
  #estimate: (index: number) => number = () => 0;
  /** Offset of each turn, and of the end. */
  #tops: number[] = [0];
  #isStale = true;

  constructor(margins: LayoutMargins) {
    this.#margins = margins;
  }

  /** Sets the turns; measured heights are retained. */
  arrange(ids: readonly string[], estimate: (index: number) => number): void {
    this.#ids = ids;
    this.#index = new Map(ids.map((id, at) => [id, at]));
    this.#estimate = estimate;
    this.#isStale = true;
  }

  /** Records a height; returns whether it changed. */
  measure(id: string, height: number): boolean {
    if (this.#measured.get(id) === height) return false;
    this.#measured.set(id, height);
    this.#isStale = true;
    return true;
  }

  isMeasured(id: string): boolean {
    return this.#measured.has(id);
  }

  /** Discards all heights after a width change. */
  clearMeasurements(): void {
    this.#measured.clear();
    this.#isStale = true;
  }

  indexOf(id: string): number {
    return this.#index.get(id) ?? -1;
  }

  /** Offset of a turn from the first one's top. */
  top(index: number): number {
    const tops = this.#computeTops();
    return tops[Math.max(0, Math.min(index, tops.length - 1))] ?? 0;
  }

  /** Height of all turns. */
  get height(): number {
    return this.top(this.#ids.length);
  }

  /** Total scrollable height. */
  get scrollHeight(): number {
    return this.#margins.above + this.height + this.#margins.below;
  }

  /** Index of the turn at an offset, or the nearest one. */
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

  /** The scroll offset of an anchor. */
  scrollFor(anchor: ScrollAnchor, viewport: number): number {
    const maxScroll = Math.max(0, this.scrollHeight - viewport);
    if (anchor.at === 'end') return maxScroll;
    const index = this.indexOf(anchor.id);
    if (index < 0) return maxScroll;
    return Math.max(0, Math.min(maxScroll, this.#margins.above + this.top(index) + anchor.offset));
  }

  /** The anchor of a scroll offset. */
  anchorAt(scroll: number, viewport: number): ScrollAnchor {
    return scroll >= this.scrollHeight - viewport - NEAR_END_PX
      ? ANCHOR_END
      : (this.turnAnchorAt(scroll) ?? ANCHOR_END);
  }

  /** The anchor of the turn at the top edge. */
  turnAnchorAt(scroll: number): ScrollAnchor | undefined {
    const y = scroll - this.#margins.above;
    const index = this.indexAt(y);
    const id = this.#ids[index];
    return id === undefined ? undefined : { at: 'turn', id, offset: y - this.top(index) };
  }

  /** The turns to render. */
  visibleRange(scroll: number, viewport: number, overscan: number): TurnRange {
    if (this.#ids.length === 0) return { from: 0, to: 0 };
    const y = scroll - this.#margins.above;
    return { from: this.indexAt(y - overscan), to: this.indexAt(y + viewport + overscan) + 1 };
  }

  /** The turn one step away; the start of the current turn counts as a step back. */
  turnAfterStep(scroll: number, by: 1 | -1): string | undefined {
    const y = scroll - this.#margins.above;
    // A turn at the top edge is the current one, even if the previous one is slightly visible.
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
