/** Line and word diffs. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type DiffLine, diffFiles, type FileDiff, foldUnchanged, MAX_DIFF_LINES } from '../src/tools/diff/line-diff.ts';
import { diffSequences } from '../src/tools/diff/myers-diff.ts';
import { diffWords } from '../src/tools/diff/word-diff.ts';

/** Reconstructs one side of a diff. */
function side({ lines, missingFinalNewline }: FileDiff, which: 'before' | 'after', ended: boolean): string {
  const gone = which === 'before' ? 'added' : 'removed';
  const text = lines.filter(({ kind }) => kind !== gone).map((line) => line.text);
  if (text.length === 0) return '';
  return text.join('\n') + ((missingFinalNewline === undefined ? ended : missingFinalNewline !== which) ? '\n' : '');
}

/** Few distinct lines, so that many are equal. */
const text = fc
  .array(fc.constantFrom('', 'a', 'b', 'c', 'a b', 'a c', '\r', 'long line with words'), { maxLength: 30 })
  .chain((lines) => fc.boolean().map((ended) => lines.join('\n') + (ended && lines.length > 0 ? '\n' : '')));

function compared(before: string | undefined, after: string | undefined): FileDiff {
  const result = diffFiles(before, after);
  if (!result) throw new Error('too long');
  return result;
}

function rendered(lines: readonly DiffLine[]): string[] {
  return lines.map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`);
}

describe('a line diff', () => {
  test('reconstructs both texts', () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const result = compared(before, after);
        expect(side(result, 'before', before.endsWith('\n'))).toBe(before);
        expect(side(result, 'after', after.endsWith('\n'))).toBe(after);
      }),
      { numRuns: 2_000 },
    );
  });

  test('counts and numbers its lines', () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const { lines, added, removed } = compared(before, after);
        expect(added).toBe(lines.filter(({ kind }) => kind === 'added').length);
        expect(removed).toBe(lines.filter(({ kind }) => kind === 'removed').length);
        const numbers = (which: 'before' | 'after') => lines.flatMap((line) => line[which] ?? []);
        expect(numbers('before')).toEqual(numbers('before').map((_, at) => at + 1));
        expect(numbers('after')).toEqual(numbers('after').map((_, at) => at + 1));
      }),
    );
  });

  test('of equal texts has no changes', () => {
    fc.assert(
      fc.property(text, (same) => {
        expect(compared(same, same)).toMatchObject({ added: 0, removed: 0 });
      }),
    );
  });

  test('is minimal', () => {
    const sequence = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 12 });
    fc.assert(
      fc.property(sequence, sequence, (one, other) => {
        const common = diffSequences(one, other).reduce(
          (sum, { kind, before }) => sum + (kind === 'same' ? before[1] - before[0] : 0),
          0,
        );
        expect(common).toBe(longestCommon(one, other));
      }),
      { numRuns: 500 },
    );
  });

  test('beyond the limit reports a replaced range and stays correct', () => {
    const sequence = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 40 });
    fc.assert(
      fc.property(sequence, sequence, (one, other) => {
        const made = diffSequences(one, other, 3).flatMap(({ kind, before, after }) =>
          kind === 'same' ? one.slice(...before) : other.slice(...after),
        );
        expect(made).toEqual(other);
      }),
    );
  });

  test('renders the expected rows', () => {
    const result = compared('one\ntwo\nthree\n', 'one\n2\nthree\nfour\n');
    expect(rendered(result.lines)).toEqual([' one', '-two', '+2', ' three', '+four']);
  });

  test('handles new and deleted files', () => {
    expect(rendered(compared(undefined, 'a\nb\n').lines)).toEqual(['+a', '+b']);
    expect(rendered(compared('a\nb', undefined).lines)).toEqual(['-a', '-b']);
    expect(compared(undefined, undefined).lines).toEqual([]);
  });

  test('reports a changed final newline', () => {
    const result = compared('a\nb', 'a\nb\n');
    expect(result.missingFinalNewline).toBe('before');
    expect(rendered(result.lines)).toEqual([' a', '-b', '+b']);
  });

  test('rejects texts beyond the line limit', () => {
    const long = (word: string) => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}`).join('\n');
    expect(diffFiles('\n'.repeat(MAX_DIFF_LINES), '\n')).toBeUndefined();
    const startedAt = performance.now();
    expect(compared(long('before'), long('after'))).toMatchObject({ added: 20_000, removed: 20_000 });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

describe('folding', () => {
  const lines = (count: number): DiffLine[] =>
    Array.from({ length: count }, (_, at) => ({ kind: 'same', before: at + 1, after: at + 1, text: `${at}` }));
  const change: DiffLine = { kind: 'added', after: 1, text: 'new' };

  test('keeps three lines of context', () => {
    const rows = foldUnchanged([...lines(20), change, ...lines(20)]);
    expect(rows.map((row) => (row.kind === 'fold' ? row.lines.length : row.kind))).toEqual([
      17,
      'same',
      'same',
      'same',
      'added',
      'same',
      'same',
      'same',
      17,
    ]);
  });

  test('loses no lines', () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const { lines: all } = compared(before, after);
        expect(foldUnchanged(all).flatMap((row) => (row.kind === 'fold' ? row.lines : [row]))).toEqual(all);
      }),
    );
  });

  test('does not fold short ranges', () => {
    expect(foldUnchanged([change, ...lines(8), change]).some(({ kind }) => kind === 'fold')).toBe(false);
  });
});

describe('word diff', () => {
  const changed = (before: string, after: string) =>
    diffWords(before, after)?.map((pieces) => pieces.filter((piece) => piece.isChanged).map((piece) => piece.text));

  test('marks the words that differ', () => {
    expect(changed('const a = one(b);', 'const a = two(b);')).toEqual([['one'], ['two']]);
    expect(changed('call(a)', 'call(a, b)')).toEqual([[], [', b']]);
  });

  test('is skipped for dissimilar lines', () => {
    expect(changed('alpha beta gamma', 'something else entirely')).toBeUndefined();
    expect(changed('', 'new')).toBeUndefined();
  });

  test('preserves the lines', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        const both = diffWords(before, after);
        if (!both) return;
        expect(both.map((pieces) => pieces.map((piece) => piece.text).join(''))).toEqual([before, after]);
      }),
    );
  });
});

/** Reference implementation of the longest common subsequence. */
function longestCommon(one: readonly number[], other: readonly number[]): number {
  const table = Array.from({ length: one.length + 1 }, () => new Array<number>(other.length + 1).fill(0));
  const at = (x: number, y: number) => table[x]?.[y] ?? 0;
  for (let x = 1; x <= one.length; x += 1)
    for (let y = 1; y <= other.length; y += 1) {
      const best = one[x - 1] === other[y - 1] ? at(x - 1, y - 1) + 1 : Math.max(at(x - 1, y), at(x, y - 1));
      (table[x] as number[])[y] = best;
    }
  return at(one.length, other.length);
}
