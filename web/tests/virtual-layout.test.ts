/** The layout of virtual lists: a long chat, and the session list. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ANCHOR_END, type ScrollAnchor, VirtualLayout } from '../src/ui/virtual-layout.ts';

const MARGINS = { above: 40, below: 20 };
const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `t${from + at}`);

function layout(from: number, to: number): VirtualLayout {
  const made = new VirtualLayout(MARGINS);
  made.arrange(ids(from, to), () => 100);
  return made;
}

describe('the virtual layout', () => {
  test('locates estimated and measured turns', () => {
    const turns = layout(0, 10);
    expect(turns.scrollHeight).toBe(1_060);
    expect(turns.measure('t3', 250)).toBe(true);
    expect(turns.measure('t3', 250)).toBe(false);
    expect([turns.top(3), turns.top(4), turns.height]).toEqual([300, 550, 1_150]);
    expect([turns.indexAt(-5), turns.indexAt(299), turns.indexAt(549), turns.indexAt(550), turns.indexAt(9e9)]).toEqual(
      [0, 2, 3, 4, 9],
    );
  });

  test('renders few of thousands of turns', () => {
    const turns = layout(0, 5_000);
    expect(turns.visibleRange(250_000, 800, 600)).toEqual({ from: 2_493, to: 2_514 });
    expect(turns.visibleRange(0, 800, 600)).toEqual({ from: 0, to: 14 });
    expect(new VirtualLayout(MARGINS).visibleRange(0, 800, 600)).toEqual({ from: 0, to: 0 });
  });

  test('renders the visible items of known heights', () => {
    const rows = new VirtualLayout();
    rows.arrange(ids(0, 5_000), (at) => (at % 2 ? 50 : 30));
    expect(rows.visibleRange(0, 400, 0)).toEqual({ from: 0, to: 11 });
    expect(rows.visibleRange(4_000, 400, 100)).toEqual({ from: 97, to: 113 });
    expect(rows.visibleRange(1e9, 400, 0)).toEqual({ from: 4_999, to: 5_000 });
    expect(new VirtualLayout().visibleRange(0, 400, 0)).toEqual({ from: 0, to: 0 });
  });

  test('scrolls only as far as an item needs', () => {
    const rows = new VirtualLayout();
    rows.arrange(ids(0, 5_000), (at) => (at % 2 ? 50 : 30));
    expect(rows.scrollToShow(0, 200, 400)).toBe(0);
    expect(rows.scrollToShow(5, 100, 400)).toBe(100);
    expect(rows.scrollToShow(11, 0, 400)).toBe(80);
    expect(layout(0, 10).scrollToShow(0, 200, 400)).toBe(MARGINS.above);
  });

  test('stays at the end while it grows', () => {
    const turns = layout(0, 10);
    const before = turns.scrollFor(ANCHOR_END, 500);
    expect(turns.anchorAt(before - 20, 500)).toBe(ANCHOR_END);
    turns.measure('t9', 400);
    expect(turns.scrollFor(ANCHOR_END, 500)).toBe(before + 300);
  });

  test('stays at a turn while others are measured or loaded above', () => {
    const turns = layout(100, 200);
    const place = turns.anchorAt(1_070, 500);
    expect(place).toEqual({ at: 'item', key: 't110', offset: 30 });
    turns.measure('t105', 400);
    expect(turns.scrollFor(place, 500)).toBe(1_370);
    turns.arrange(ids(0, 200), () => 100);
    expect(turns.scrollFor(place, 500)).toBe(11_370);
  });

  test('never scrolls beyond its height', () => {
    const turns = layout(0, 3);
    expect(turns.scrollFor({ at: 'item', key: 't2', offset: 90 }, 300)).toBe(60);
    expect(turns.scrollFor({ at: 'item', key: 't0', offset: -500 }, 300)).toBe(0);
    expect(turns.scrollFor({ at: 'item', key: 'gone', offset: 0 }, 300)).toBe(60);
    expect(turns.scrollFor(ANCHOR_END, 5_000)).toBe(0);
  });

  test('steps from message to message', () => {
    const turns = layout(0, 10);
    expect(turns.keyAfterStep(40 + 300, 1)).toBe('t4');
    expect(turns.keyAfterStep(40 + 300, -1)).toBe('t2');
    expect(turns.keyAfterStep(40 + 360, -1)).toBe('t3');
    expect(turns.keyAfterStep(40 + 290, -1)).toBe('t2');
    expect(turns.keyAfterStep(0, -1)).toBeUndefined();
    expect(turns.keyAfterStep(9_000, 1)).toBeUndefined();
  });

  test('keeps the anchored turn in place through any change', () => {
    const change = fc.record({ turn: fc.nat(199), height: fc.integer({ min: 20, max: 900 }) });
    fc.assert(
      fc.property(fc.array(change), fc.integer({ min: 0, max: 15_000 }), fc.nat(150), (changes, scroll, older) => {
        const turns = layout(100, 300);
        const place: ScrollAnchor = turns.anchorAt(scroll, 700);
        expect(turns.scrollFor(place, 700)).toBeCloseTo(scroll);
        turns.arrange(ids(100 - Math.min(100, older), 300), () => 100);
        for (const { turn, height } of changes) turns.measure(`t${100 + turn}`, height);
        if (place.at !== 'item') return;
        const next = turns.scrollFor(place, 700);
        const distance = next - MARGINS.above - turns.top(turns.indexOf(place.key));
        // Except at the ends, where there is nothing to scroll to.
        if (next > 0 && next < turns.scrollHeight - 700) expect(distance).toBeCloseTo(place.offset);
        const { from, to } = turns.visibleRange(next, 700, 300);
        expect(turns.top(from)).toBeLessThanOrEqual(Math.max(0, next - MARGINS.above));
        expect(turns.top(to)).toBeGreaterThanOrEqual(Math.min(turns.height, next - MARGINS.above + 700));
      }),
    );
  });
});
