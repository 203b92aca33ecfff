/** Bounded card state. */

import { expect, test } from 'vitest';
import { MAX_ENTRIES, setBounded } from '../src/tools/bounded-map.ts';
import { elapsedMs, recordStart } from '../src/tools/call-duration.ts';

test('the oldest evictable entry is removed when the map is full', () => {
  const map = new Map<string, string>([
    ['entry', 'mine'],
    ['blank', ''],
  ]);
  const isBlank = (text: string) => text === '';
  for (let at = 0; at < MAX_ENTRIES - 1; at++) setBounded(map, `card ${at}`, 'more text', isBlank);
  expect(map.size).toBe(MAX_ENTRIES);
  expect([map.has('entry'), map.has('blank')]).toEqual([true, false]);
  // Unsent text exceeds the limit, and the newest entry is never evicted.
  setBounded(map, 'last', '', isBlank);
  expect([map.size, map.get('last')]).toEqual([MAX_ENTRIES + 1, '']);
});

test('durations of the oldest calls are evicted', () => {
  for (let at = 0; at <= MAX_ENTRIES; at++) recordStart(`call ${at}`, at);
  expect(elapsedMs('call 0', 1_000)).toBeUndefined();
  expect(elapsedMs('call 1', 1_000)).toBe(999);
});
