/** The browser environment of the client, with fake browser globals. */

import { afterEach, expect, test, vi } from 'vitest';
import { backoffDelay } from '../src/ahp/backoff.ts';
import { browserEnvironment, newId } from '../src/ahp/environment.ts';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function stubBrowser() {
  vi.useFakeTimers();
  const frames = new Map<number, () => void>();
  let next = 1;
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => {
    frames.set(next, run);
    return next++;
  });
  vi.stubGlobal('cancelAnimationFrame', (id: number) => frames.delete(id));
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  vi.stubGlobal('window', window);
  vi.stubGlobal('document', document);
  return { frames, window, document };
}

test('a frame callback runs once with the animation frame', () => {
  const { frames } = stubBrowser();
  let count = 0;
  browserEnvironment().onNextFrame(() => count++);
  for (const run of [...frames.values()]) run();
  vi.advanceTimersByTime(1_000);
  expect([count, frames.size]).toEqual([1, 0]);
});

test('a hidden page runs frame callbacks once by timer', () => {
  const { frames } = stubBrowser();
  let count = 0;
  browserEnvironment().onNextFrame(() => count++);
  vi.advanceTimersByTime(1_000);
  expect([count, frames.size]).toEqual([1, 0]);
});

test('a cancelled frame callback does not run', () => {
  const { frames } = stubBrowser();
  let count = 0;
  browserEnvironment().onNextFrame(() => count++)();
  vi.advanceTimersByTime(1_000);
  expect([count, frames.size]).toEqual([0, 0]);
});

test('the page wakes on visibility, pageshow and online', () => {
  const { window, document } = stubBrowser();
  let count = 0;
  const stop = browserEnvironment().onWake(() => count++);
  window.dispatchEvent(new Event('online'));
  window.dispatchEvent(new Event('pageshow'));
  document.dispatchEvent(new Event('visibilitychange'));
  document.visibilityState = 'hidden';
  document.dispatchEvent(new Event('visibilitychange'));
  expect(count).toBe(3);
  stop();
  window.dispatchEvent(new Event('online'));
  expect(count).toBe(3);
});

test('ids are unique and formatted as UUIDs', () => {
  const ids = new Set(Array.from({ length: 100 }, newId));
  expect(ids.size).toBe(100);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('backoff delays grow with jitter up to the maximum', () => {
  expect([1, 2, 3].map((failures) => backoffDelay(failures, 1))).toEqual([500, 1000, 2000]);
  expect([1, 2, 3].map((failures) => backoffDelay(failures, 0))).toEqual([250, 500, 1000]);
  expect(backoffDelay(10_000, 1)).toBe(30_000);
});
