/**
 * Layout of a virtual list: measured heights for rendered items, exact or estimated heights for others. The scroll
 * position can be anchored to an item instead of a distance from the top, so that nothing moves when items above are
 * measured or loaded. Knows neither
 * the DOM nor Svelte.
 */

/** The scroll anchor: the end, or an offset from the top of an item. */
export type ScrollAnchor =
  | { readonly at: 'end' }
  | { readonly at: 'item'; readonly key: string; readonly offset: number };

export const ANCHOR_END: ScrollAnchor = { at: 'end' };

/** The items from one index up to another, exclusive. */
export interface ItemRange {
  readonly from: number;
  readonly to: number;
}

/** Margins above the first and below the last item. */
export interface LayoutMargins {
  readonly above: number;
  readonly below: number;
}

/** Distance from the end that counts as the end. */
const NEAR_END_PX = 32;

export class VirtualLayout {
  readonly #margins: LayoutMargins;
  readonly #measured = new Map<string, number>();
  #keys: readonly string[] = [];
  #index = new Map<string, number>();
  #estimate: (index: number) => number = () => 0;
  /** Offset of each item, and of the end. */
  #tops: number[] = [0];
  #isStale = true;

  constructor(margins: LayoutMargins = { above: 0, below: 0 }) {
    this.#margins = margins;
  }

  /** Sets the items; measured heights are retained. */
  arrange(keys: readonly string[], estimate: (index: number) => number): void {
    this.#keys = keys;
    this.#index = new Map(keys.map((key, at) => [key, at]));
    this.#estimate = estimate;
    this.#isStale = true;
  }

  /** Records a height; returns whether it changed. */
  measure(key: string, height: number): boolean {
    if (this.#measured.get(key) === height) return false;
    this.#measured.set(key, height);
    this.#isStale = true;
    return true;
  }

  /** Discards all heights after a width change. */
  clearMeasurements(): void {
    this.#measured.clear();
    this.#isStale = true;
  }

  indexOf(key: string): number {
    return this.#index.get(key) ?? -1;
  }

  /** Offset of an item from the first one's top. */
  top(index: number): number {
    const tops = this.#computeTops();
    return tops[Math.max(0, Math.min(index, tops.length - 1))] ?? 0;
  }

  /** Height of all items. */
  get height(): number {
    return this.top(this.#keys.length);
  }

  /** Total scrollable height. */
  get scrollHeight(): number {
    return this.#margins.above + this.height + this.#margins.below;
  }

  /** Index of the item at an offset, or the nearest one. */
  indexAt(y: number): number {
    const tops = this.#computeTops();
    let low = 0;
    let high = Math.max(0, this.#keys.length - 1);
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
    const index = this.indexOf(anchor.key);
    if (index < 0) return maxScroll;
    return Math.max(0, Math.min(maxScroll, this.#margins.above + this.top(index) + anchor.offset));
  }

  /** The anchor of a scroll offset. */
  anchorAt(scroll: number, viewport: number): ScrollAnchor {
    return scroll >= this.scrollHeight - viewport - NEAR_END_PX
      ? ANCHOR_END
      : (this.itemAnchorAt(scroll) ?? ANCHOR_END);
  }

  /** The anchor of the item at the top edge. */
  itemAnchorAt(scroll: number): ScrollAnchor | undefined {
    const y = scroll - this.#margins.above;
    const index = this.indexAt(y);
    const key = this.#keys[index];
    return key === undefined ? undefined : { at: 'item', key, offset: y - this.top(index) };
  }

  /** The items to render. */
  visibleRange(scroll: number, viewport: number, overscan: number): ItemRange {
    if (this.#keys.length === 0) return { from: 0, to: 0 };
    const y = scroll - this.#margins.above;
    return { from: this.indexAt(y - overscan), to: this.indexAt(y + viewport + overscan) + 1 };
  }

  /** The scroll offset that makes an item visible; unchanged if it is visible. */
  scrollToShow(index: number, scroll: number, viewport: number): number {
    const begin = this.#margins.above + this.top(index);
    const end = this.#margins.above + this.top(index + 1);
    if (begin < scroll) return begin;
    return end > scroll + viewport ? end - viewport : scroll;
  }

  /** The item one step away; the start of the current item counts as a step back. */
  keyAfterStep(scroll: number, by: 1 | -1): string | undefined {
    const y = scroll - this.#margins.above;
    // An item at the top edge is the current one, even if the previous one is slightly visible.
    const index = this.indexAt(y + NEAR_END_PX);
    const isInside = y - this.top(index) > NEAR_END_PX;
    return this.#keys[by > 0 ? index + 1 : isInside ? index : index - 1];
  }

  #computeTops(): readonly number[] {
    if (!this.#isStale) return this.#tops;
    this.#isStale = false;
    const tops = new Array<number>(this.#keys.length + 1);
    let top = 0;
    for (const [index, key] of this.#keys.entries()) {
      tops[index] = top;
      top += this.#measured.get(key) ?? this.#estimate(index);
    }
    tops[this.#keys.length] = top;
    this.#tops = tops;
    return tops;
  }
}
