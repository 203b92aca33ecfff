/** Arithmetic of the benchmark report. */

import { expect, test } from 'vitest';
import { frameStats } from '../bench/frame-times.ts';
import { formatTable, percentile } from '../bench/report-table.ts';

test('dropped frames are counted', () => {
  const steady = Array.from({ length: 61 }, (_, at) => (at * 1_000) / 60);
  expect(frameStats(steady)).toMatchObject({ dropped: 0 });
  // Every other frame is missing.
  expect(frameStats(steady.filter((_, at) => at % 2 === 0)).dropped).toBeCloseTo(50);
  // One pause of five frames among 55.
  const paused = frameStats(steady.filter((_, at) => at < 20 || at >= 25));
  expect(paused.dropped).toBeCloseTo((100 * 5) / 60);
  expect(paused.longest).toBeCloseTo(100);
  expect(frameStats([])).toEqual({ dropped: 0, p99: 0, longest: 0 });
});

test('a percentile is one of the values', () => {
  expect([0, 50, 99, 100].map((percent) => percentile([3, 1, 2, 4], percent))).toEqual([1, 3, 4, 4]);
  expect(percentile([], 50)).toBe(0);
});

test('the table aligns results with their targets', () => {
  const rows = [
    { what: 'opened', unit: 'ms', hostler: 30, baseline: ['1 turn', 20] as const },
    { what: 'size', unit: 'kB', hostler: 60, target: 250 },
  ];
  expect(formatTable(rows)).toBe(
    [
      'what    hostler   beside             ratio  target',
      'opened  30.00 ms  20.00 ms (1 turn)  1.50   -',
      'size    60.00 kB  -                  -      ≤ 250.00 kB',
    ].join('\n'),
  );
});
