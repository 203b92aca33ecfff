/** A file before and after as rows of a diff, with what stayed folded away. */

import { diffSequences } from './myers-diff.ts';
import { diffWords, type WordDiffSpan } from './word-diff.ts';

export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  /** Its number before and after, from 1. */
  readonly before?: number;
  readonly after?: number;
  readonly text: string;
  /** The words that were changed, where it pays to know them. */
  readonly pieces?: readonly WordDiffSpan[];
}

export type DiffRow = DiffLine | { readonly kind: 'fold'; readonly lines: readonly DiffLine[] };

export interface FileDiff {
  readonly lines: readonly DiffLine[];
  readonly added: number;
  readonly removed: number;
  /** Whether the last line ends without a line break, where that is part of the change. */
  readonly missingFinalNewline?: 'before' | 'after';
}

/** Lines that are shown around a change. */
const CONTEXT_LINES = 3;

/** More lines than are compared. */
export const MAX_DIFF_LINES = 60_000;

/** Compares two texts, or says nothing if they are too long for that. Without a text there was, or is, no file. */
export function diffFiles(before: string | undefined, after: string | undefined): FileDiff | undefined {
  const [one, other] = [splitLines(before), splitLines(after)];
  if (one.lines.length + other.lines.length > MAX_DIFF_LINES) return undefined;
  // A last line that is only ended now counts as changed.
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

/** What is far from every change becomes folds. A fold of a line or two would hide less than it takes. */
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

/** Stands for a missing line break: no line of a text contains one. */
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
