/** The virtual list: which items are rendered, and where it scrolls. The document has no layout, so the test gives it one. */

import { flushSync } from 'svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import type { VirtualList } from '../../src/ui/virtual-list.svelte.ts';
import { allByRole, render, settle } from './support/render.ts';
import VirtualListExample from './support/VirtualListExample.svelte';

/** Observers and the elements that they observe. */
const observed = new Map<Element, (entries: readonly unknown[]) => void>();
const keys = Array.from({ length: 1_000 }, (_, at) => `item ${at}`);
const heights = new Map<string, number>();
let list: VirtualList;

beforeEach(() => {
  observed.clear();
  heights.clear();
  vi.stubGlobal(
    'ResizeObserver',
    class {
      readonly #callback: (entries: readonly unknown[]) => void;
      constructor(callback: (entries: readonly unknown[]) => void) {
        this.#callback = callback;
      }
      observe(element: Element): void {
        observed.set(element, this.#callback);
      }
      unobserve(element: Element): void {
        observed.delete(element);
      }
      disconnect(): void {}
    },
  );
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => {
    run();
    return 0;
  });
  HTMLElement.prototype.getBoundingClientRect = function (this: HTMLElement) {
    return { height: heights.get(this.dataset.key ?? '') ?? 50 } as DOMRect;
  };
});

function show(isAnchored: boolean): HTMLElement {
  const container = render(VirtualListExample, {
    keys,
    isAnchored,
    onlist: (made) => {
      list = made;
    },
  });
  const scroller = container.querySelector('.scroller') as HTMLElement;
  Object.defineProperty(scroller, 'clientHeight', { value: 400, configurable: true });
  Object.defineProperty(scroller, 'scrollHeight', { get: () => list.view.height });
  observed.get(scroller)?.([]);
  flushSync();
  return scroller;
}

const rendered = () => allByRole('listitem').map((item) => item.dataset.key);

async function scrollTo(scroller: HTMLElement, top: number): Promise<void> {
  scroller.scrollTop = top;
  scroller.dispatchEvent(new Event('scroll'));
  await settle();
}

test('only the visible items and some beyond are rendered', async () => {
  const scroller = show(false);
  expect(list.view.height).toBe(50_000);
  expect(rendered()).toEqual(keys.slice(0, 11));
  await scrollTo(scroller, 10_000);
  expect(rendered()).toEqual(keys.slice(198, 211));
  expect(list.top(198)).toBe(9_900);
});

test('an item is revealed by the shortest way', async () => {
  const scroller = show(false);
  list.reveal(100);
  await settle();
  expect(scroller.scrollTop).toBe(101 * 50 - 400);
  expect(rendered()).toContain('item 100');
  list.reveal(99);
  expect(scroller.scrollTop).toBe(101 * 50 - 400);
  list.reveal(10);
  expect(scroller.scrollTop).toBe(500);
});

test('an anchored list follows its end while items grow', async () => {
  const scroller = show(true);
  expect(scroller.scrollTop).toBe(50_000 - 400);
  expect(rendered().at(-1)).toBe('item 999');
  expect(list.view.isEndSeen).toBe(true);
  grow('item 999', 300);
  expect(scroller.scrollTop).toBe(50_250 - 400);
});

test('an anchored list keeps the visible items in place while items above grow', async () => {
  const scroller = show(true);
  await scrollTo(scroller, 20_000);
  expect(list.view.isEndSeen).toBe(false);
  const above = rendered()[0] ?? '';
  grow(above, 80);
  expect(scroller.scrollTop).toBe(20_030);
  list.anchorTo('item 0', 0);
  flushSync();
  expect(scroller.scrollTop).toBe(0);
  expect(list.keyAfterStep(1)).toBe('item 1');
  list.followEnd();
  flushSync();
  expect(list.view.isEndSeen).toBe(true);
});

/** The browser reports that an item has another height. */
function grow(key: string, height: number): void {
  heights.set(key, height);
  const item = document.querySelector(`[data-key="${key}"]`);
  if (!item) throw new Error(`${key} is not rendered`);
  observed.get(item)?.([{ target: item, borderBoxSize: [{ blockSize: height }] }]);
  flushSync();
}
