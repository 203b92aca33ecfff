import { expect, test } from 'vitest';
import { begun, durationOf, elapsed, ended } from '../src/tools/call-duration.ts';

test('a call whose beginning and end were seen has a duration, and keeps it', () => {
  begun('seen', 1_000);
  begun('seen', 2_000);
  expect(elapsed('seen', 4_000)).toBe(3_000);
  expect(durationOf('seen')).toBeUndefined();
  ended('seen', 5_000);
  ended('seen', 9_000);
  expect(durationOf('seen')).toBe(4_000);
});

test('nothing is said about a call that was at work already', () => {
  expect(elapsed('late', 4_000)).toBeUndefined();
  ended('late', 5_000);
  expect(durationOf('late')).toBeUndefined();
});
