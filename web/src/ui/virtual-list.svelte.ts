/**
 * A virtual list without markup: which items are rendered, where they are, and the scroll position. A component renders
 * the items from `view.from` to `view.to` with their own roles, in an element with `scroller` attached.
 */

import { flushSync, untrack } from 'svelte';
import type { Attachment } from 'svelte/attachments';
import { ANCHOR_END, type LayoutMargins, type ScrollAnchor, VirtualLayout } from './virtual-layout.ts';

export interface VirtualListOptions {
  /** Keys of all items, in order. */
  readonly keys: () => readonly string[];
  /** The height of an item; an estimate if the component attaches `measure`. */
  readonly height: (index: number) => number;
  /** Distance beyond the viewport in which items are rendered. */
  readonly overscanPx: number;
  readonly margins?: LayoutMargins;
  /** Whether the position is anchored: to the end, or to an item. Otherwise it is a distance from the start. */
  readonly isAnchored?: boolean;
}

/** The rendered part of the list. */
export interface VirtualListView {
  /** The items to render, up to `to`, exclusive. */
  readonly from: number;
  readonly to: number;
  readonly scroll: number;
  /** Heights of the items that are not rendered, before and after. */
  readonly above: number;
  readonly below: number;
  readonly height: number;
  readonly isEndSeen: boolean;
}

export class VirtualList {
  readonly #options: VirtualListOptions;
  readonly #layout: VirtualLayout;
  readonly #elements = new Map<Element, string>();
  /** Incremented after each measurement; the view depends on it. */
  #measureCount = $state(0);
  #viewportHeight = $state(0);
  #scrollTop = $state(0);
  #anchor: ScrollAnchor = $state.raw(ANCHOR_END);
  #scroller: HTMLElement | undefined;
  #observer: ResizeObserver | undefined;

  readonly #arrangement = $derived.by(() => {
    const keys = this.#options.keys();
    this.#layout.arrange(keys, this.#options.height);
    return { keys };
  });

  readonly view: VirtualListView = $derived.by(() => {
    void [this.#measureCount, this.#arrangement];
    const viewport = this.#viewportHeight;
    const scroll = this.#options.isAnchored ? this.#layout.scrollFor(this.#anchor, viewport) : this.#scrollTop;
    const { from, to } = this.#layout.visibleRange(scroll, viewport, this.#options.overscanPx);
    const { height } = this.#layout;
    const isEndSeen = this.#layout.anchorAt(scroll, viewport).at === 'end';
    return { from, to, scroll, above: this.#layout.top(from), below: height - this.#layout.top(to), height, isEndSeen };
  });

  constructor(options: VirtualListOptions) {
    this.#options = options;
    this.#layout = new VirtualLayout(options.margins);
  }

  indexOf(key: string): number {
    return this.#layout.indexOf(key);
  }

  /** Offset of an item from the first one's top. */
  top(index: number): number {
    void this.view;
    return this.#layout.top(index);
  }

  /** The key of the item one step away from the top edge. */
  keyAfterStep(by: 1 | -1): string | undefined {
    return this.#layout.keyAfterStep(this.view.scroll, by);
  }

  /** Follows the end. */
  followEnd(): void {
    this.#anchor = ANCHOR_END;
  }

  /** Anchors the position to an item. */
  anchorTo(key: string, offset: number): void {
    this.#anchor = { at: 'item', key, offset };
  }

  /** Keeps the visible items in place while their heights change, instead of following the end. */
  holdPosition(): void {
    const scroller = this.#scroller;
    if (!scroller || this.#anchor.at !== 'end') return;
    this.#anchor = this.#layout.itemAnchorAt(scroller.scrollTop) ?? ANCHOR_END;
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        this.#anchor = this.#layout.anchorAt(scroller.scrollTop, this.#viewportHeight);
      }),
    );
  }

  /** Scrolls as far as needed to show an item. */
  reveal(index: number): void {
    if (!this.#scroller) return;
    this.#scroller.scrollTop = this.#layout.scrollToShow(index, this.#scroller.scrollTop, this.#viewportHeight);
    this.#scrollTop = this.#scroller.scrollTop;
  }

  /** Attached to the element that scrolls. */
  readonly scroller: Attachment<HTMLElement> = (element) => {
    this.#scroller = element;
    let width = element.clientWidth;
    const resized = new ResizeObserver(() => {
      if (!this.#isLaidOut()) return;
      if (element.clientWidth !== width) this.#layout.clearMeasurements();
      width = element.clientWidth;
      for (const [item, key] of this.#elements) this.#layout.measure(key, item.getBoundingClientRect().height);
      this.#viewportHeight = element.clientHeight;
      this.#measureCount += 1;
      flushSync();
    });
    resized.observe(element);
    const onScroll = () => this.#onScroll();
    element.addEventListener('scroll', onScroll);
    // Corrects the scroll position before the frame is painted.
    $effect(() => {
      if (this.#options.isAnchored && Math.abs(element.scrollTop - this.view.scroll) > 0.5)
        element.scrollTop = this.view.scroll;
    });
    return () => {
      element.removeEventListener('scroll', onScroll);
      resized.disconnect();
      this.#observer?.disconnect();
      this.#scroller = undefined;
    };
  };

  /** Attached to an item whose height is measured now and after each resize. */
  measure(key: string): Attachment<HTMLElement> {
    return (element) => {
      this.#elements.set(element, key);
      if (this.#layout.measure(key, element.getBoundingClientRect().height))
        untrack(() => {
          this.#measureCount += 1;
        });
      this.#observer ??= new ResizeObserver((entries) => this.#onItemsResized(entries));
      const observer = this.#observer;
      // Observing during a ResizeObserver callback would deliver the first entry too late.
      const frame = requestAnimationFrame(() => observer.observe(element));
      return () => {
        cancelAnimationFrame(frame);
        observer.unobserve(element);
        this.#elements.delete(element);
      };
    };
  }

  /** A list that is covered by another screen has no height; its anchor stays. */
  #isLaidOut(): boolean {
    return this.#scroller !== undefined && this.#scroller.clientHeight > 0;
  }

  #onScroll(): void {
    const { scroll } = this.view;
    if (!this.#scroller || !this.#isLaidOut()) return;
    const at = this.#scroller.scrollTop;
    this.#scrollTop = at;
    if (!this.#options.isAnchored || Math.abs(at - scroll) <= 1) return;
    // Shrinking content moves the end before it is measured; that is not a user scroll.
    const isAtBottom = at >= this.#scroller.scrollHeight - this.#scroller.clientHeight - 1;
    this.#anchor = isAtBottom ? ANCHOR_END : this.#layout.anchorAt(at, this.#viewportHeight);
  }

  #onItemsResized(entries: readonly ResizeObserverEntry[]): void {
    if (!this.#isLaidOut()) return;
    let hasChanged = false;
    for (const { target, borderBoxSize } of entries) {
      const key = this.#elements.get(target);
      if (key !== undefined && target.isConnected)
        hasChanged = this.#layout.measure(key, borderBoxSize[0]?.blockSize ?? 0) || hasChanged;
    }
    if (!hasChanged) return;
    this.#measureCount += 1;
    // Runs before the frame is painted, so that nothing jumps.
    flushSync();
  }
}
