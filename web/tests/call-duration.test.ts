/** Observed durations of tool calls. */

import { expect, test } from 'vitest';
import { callDurationMs, elapsedMs, recordEnd, recordStart } from '../src/tools/call-duration.ts';

test('a call with an observed start and end has a stable duration', () => {
  recordStart('seen', 1_000);
  recordStart('seen', 2_000);
  expect(elapsedMs('seen', 4_000)).toBe(3_000);
  expect(callDurationMs('seen')).toBeUndefined();
  recordEnd('seen', 5_000);
  recordEnd('seen', 9_000);
  expect(callDurationMs('seen')).toBe(4_000);
});

test('a call that was already running has no duration', () => {
  expect(elapsedMs('late', 4_000)).toBeUndefined();
  recordEnd('late', 5_000);
  expect(callDurationMs('late')).toBeUndefined();
});
