/** Following the end of output. */

import { expect, test } from 'vitest';
import { isScrolledToEnd } from '../src/tools/output/scroll-follow.ts';

test('a scrolled-up box is not at the end, and a nearly scrolled one is', () => {
  const box = { scrollHeight: 1_000, clientHeight: 300 };
  expect(isScrolledToEnd({ ...box, scrollTop: 700 })).toBe(true);
  expect(isScrolledToEnd({ ...box, scrollTop: 690.5 })).toBe(true);
  expect(isScrolledToEnd({ ...box, scrollTop: 650 })).toBe(false);
  expect(isScrolledToEnd({ scrollHeight: 120, clientHeight: 120, scrollTop: 0 })).toBe(true);
});
