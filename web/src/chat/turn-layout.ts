/**
 * Where turns are in a long chat of which only a few are on the page: those that were shown are as high as they were, all
 * others as high as somebody guesses. What a person looks at is a place at a turn and not a distance from the top, so that
 * nothing moves when turns above it are measured or come in.
 */

/** What a person looks at: the end, wherever it goes, or some distance below the top of a turn. */
export type Place = { readonly at: 'end' } | { readonly at: 'turn'; readonly id: string; readonly offset: number };

export const END: Place = { at: 'end' };

/** The turns from one index up to another one. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Room above the first turn and below the last one. */
export interface Margins {
  readonly above: number;
  readonly below: number;
}

/** How near to the end is at the end. */
const NEAR = 32;

export class Layout {
  readonly #margins: Margins;
  readonly #measured = new Map<string, number>();
  #ids: readonly string[] = [];
  #index = new Map<string, number>();
  #estimate: (index: number) => number = () => 0;
  /** Where each turn begins, and the end. */
  #tops: number[] = [0];
  #isStale = true;

  constructor(margins: Margins) {
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
  forget(): void {
    this.#measured.clear();
    this.#isStale = true;
  }

  indexOf(id: string): number {
    return this.#index.get(id) ?? -1;
  }

  /** Where a turn begins, from the first one's top. */
  top(index: number): number {
    const tops = this.#fresh();
    return tops[Math.max(0, Math.min(index, tops.length - 1))] ?? 0;
  }

  /** All turns together. */
  get height(): number {
    return this.top(this.#ids.length);
  }

  /** Everything that can be scrolled through. */
  get extent(): number {
    return this.#margins.above + this.height + this.#margins.below;
  }

  /** The turn at a height, or the nearest one. */
  indexAt(y: number): number {
    const tops = this.#fresh();
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
  scrollFor(place: Place, viewport: number): number {
    const most = Math.max(0, this.extent - viewport);
    if (place.at === 'end') return most;
    const index = this.indexOf(place.id);
    if (index < 0) return most;
    return Math.max(0, Math.min(most, this.#margins.above + this.top(index) + place.offset));
  }

  /** What one looks at who has scrolled so far. */
  placeAt(scroll: number, viewport: number): Place {
    return scroll >= this.extent - viewport - NEAR ? END : (this.turnAt(scroll) ?? END);
  }

  /** The turn at the upper edge of what one sees who has scrolled so far. */
  turnAt(scroll: number): Place | undefined {
    const y = scroll - this.#margins.above;
    const index = this.indexAt(y);
    const id = this.#ids[index];
    return id === undefined ? undefined : { at: 'turn', id, offset: y - this.top(index) };
  }

  /** The turns that have to be on the page. */
  span(scroll: number, viewport: number, overscan: number): Span {
    if (this.#ids.length === 0) return { from: 0, to: 0 };
    const y = scroll - this.#margins.above;
    return { from: this.indexAt(y - overscan), to: this.indexAt(y + viewport + overscan) + 1 };
  }

  /** The turn that `by` steps lead to; one that has begun above is a step away itself. */
  step(scroll: number, by: 1 | -1): string | undefined {
    const y = scroll - this.#margins.above;
    // A turn at the upper edge is the one that a person is at, even if a little of the one before is seen.
    const index = this.indexAt(y + NEAR);
    const isInside = y - this.top(index) > NEAR;
    return this.#ids[by > 0 ? index + 1 : isInside ? index : index - 1];
  }

  #fresh(): readonly number[] {
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
