/** Line diff of a file with folded unchanged ranges. Pure. */

import { diffSequences } from './myers-diff.ts';
import { diffWords, type WordDiffSpan } from './word-diff.ts';

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  /** Line number before and after, from 1. */
  readonly before?: number;
  readonly after?: number;
  readonly text: string;
  /** Changed words, for similar lines. */
  readonly pieces?: readonly WordDiffSpan[];
}

export type DiffRow = DiffLine | { readonly kind: 'fold'; readonly lines: readonly DiffLine[] };

export interface FileDiff {
  readonly lines: readonly DiffLine[];
  readonly added: number;
  readonly removed: number;
  /** Which side lacks a final newline, if that is part of the change. */
  readonly missingFinalNewline?: 'before' | 'after';
}

/** Context lines around a change. */
const CONTEXT_LINES = 3;

/** Longer files are not compared. */
export const MAX_DIFF_LINES = 60_000;

/** Compares two texts; undefined if they are too long. A missing text means that the file does not exist on that side. */
export function diffFiles(before: string | undefined, after: string | undefined): FileDiff | undefined {
  const [one, other] = [splitLines(before), splitLines(after)];
  if (one.lines.length + other.lines.length > MAX_DIFF_LINES) return undefined;
  // A changed final newline counts as a change of the last line.
  const last = ({ lines, hasFinalNewline }: SplitText) =>
    hasFinalNewline || lines.length === 0 ? lines : lines.with(-1, `${lines.at(-1)}${NO_FINAL_NEWLINE}`);
  const differs = one.hasFinalNewline !== other.hasFinalNewline && one.lines.length > 0 && other.lines.length > 0;
  const ranges = diffSequences(differs ? last(one) : one.lines, differs ? last(other) : other.lines);
  const lines: DiffLine[] = [];
  let [added, removed] = [0, 0];
  for (const range of ranges) {
    const [from] = range.before;
    const [to] = range.after;
    const removedLines = one.lines.slice(...range.before);
    const addedLines = other.lines.slice(...range.after);
    if (range.kind === 'same') {
      lines.push(
        ...removedLines.map(
          (text, at): DiffLine => ({ kind: 'same', before: from + at + 1, after: to + at + 1, text }),
        ),
      );
      continue;
    }
    added += addedLines.length;
    removed += removedLines.length;
    const marked = removedLines.map((text, at) =>
      addedLines[at] === undefined ? undefined : diffWords(text, addedLines[at]),
    );
    removedLines.forEach((text, at) => {
      lines.push({ kind: 'removed', before: from + at + 1, text, ...(marked[at] && { pieces: marked[at][0] }) });
    });
    addedLines.forEach((text, at) => {
      lines.push({ kind: 'added', after: to + at + 1, text, ...(marked[at] && { pieces: marked[at][1] }) });
    });
  }
  return { lines, added, removed, ...(differs && { missingFinalNewline: one.hasFinalNewline ? 'after' : 'before' }) };
}

/** Folds unchanged lines away from changes. Short ranges are not folded. */
export function foldUnchanged(lines: readonly DiffLine[], contextLines = CONTEXT_LINES): readonly DiffRow[] {
  const rows: DiffRow[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line) break;
    if (line.kind !== 'same') {
      rows.push(line);
      at += 1;
      continue;
    }
    let end = at;
    while (lines[end]?.kind === 'same') end += 1;
    const head = at === 0 ? 0 : contextLines;
    const tail = end === lines.length ? 0 : contextLines;
    const run = lines.slice(at, end);
    if (run.length <= head + tail + 2) rows.push(...run);
    else {
      rows.push(...run.slice(0, head));
      rows.push({ kind: 'fold', lines: run.slice(head, run.length - tail) });
      rows.push(...run.slice(run.length - tail));
    }
    at = end;
  }
  return rows;
}

/** Marks a missing final newline; no line contains it. */
const NO_FINAL_NEWLINE = '\n';

interface SplitText {
  readonly lines: readonly string[];
  readonly hasFinalNewline: boolean;
}

function splitLines(text: string | undefined): SplitText {
  if (!text) return { lines: [], hasFinalNewline: true };
  const lines = text.split('\n');
  const hasFinalNewline = lines.at(-1) === '';
  return { lines: hasFinalNewline ? lines.slice(0, -1) : lines, hasFinalNewline };
}
