/** A file before and after as rows of a diff, with what stayed folded away. */

import { compare } from './myers-diff.ts';
import { marks, type Piece } from './word-diff.ts';

export interface Line {
  readonly kind: 'same' | 'added' | 'removed';
  /** Its number before and after, from 1. */
  readonly before?: number;
  readonly after?: number;
  readonly text: string;
  /** The words that were changed, where it pays to know them. */
  readonly pieces?: readonly Piece[];
}

export type Row = Line | { readonly kind: 'fold'; readonly lines: readonly Line[] };

export interface Diff {
  readonly lines: readonly Line[];
  readonly added: number;
  readonly removed: number;
  /** Whether the last line ends without a line break, where that is part of the change. */
  readonly openEnd?: 'before' | 'after';
}

/** Lines that are shown around a change. */
const AROUND = 3;

/** More lines than are compared. */
export const MOST_LINES = 60_000;

/** Compares two texts, or says nothing if they are too long for that. Without a text there was, or is, no file. */
export function diff(before: string | undefined, after: string | undefined): Diff | undefined {
  const [one, other] = [split(before), split(after)];
  if (one.lines.length + other.lines.length > MOST_LINES) return undefined;
  // A last line that is only ended now counts as changed.
  const last = ({ lines, isEnded }: Text) =>
    isEnded || lines.length === 0 ? lines : lines.with(-1, `${lines.at(-1)}${OPEN}`);
  const differs = one.isEnded !== other.isEnded && one.lines.length > 0 && other.lines.length > 0;
  const stretches = compare(differs ? last(one) : one.lines, differs ? last(other) : other.lines);
  const lines: Line[] = [];
  let [added, removed] = [0, 0];
  for (const stretch of stretches) {
    const [from] = stretch.before;
    const [to] = stretch.after;
    const gone = one.lines.slice(...stretch.before);
    const come = other.lines.slice(...stretch.after);
    if (stretch.kind === 'same') {
      lines.push(...gone.map((text, at): Line => ({ kind: 'same', before: from + at + 1, after: to + at + 1, text })));
      continue;
    }
    added += come.length;
    removed += gone.length;
    const marked = gone.map((text, at) => (come[at] === undefined ? undefined : marks(text, come[at])));
    gone.forEach((text, at) => {
      lines.push({ kind: 'removed', before: from + at + 1, text, ...(marked[at] && { pieces: marked[at][0] }) });
    });
    come.forEach((text, at) => {
      lines.push({ kind: 'added', after: to + at + 1, text, ...(marked[at] && { pieces: marked[at][1] }) });
    });
  }
  return { lines, added, removed, ...(differs && { openEnd: one.isEnded ? 'after' : 'before' }) };
}

/** What is far from every change becomes folds. A fold of a line or two would hide less than it takes. */
export function fold(lines: readonly Line[], around = AROUND): readonly Row[] {
  const rows: Row[] = [];
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
    const head = at === 0 ? 0 : around;
    const tail = end === lines.length ? 0 : around;
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
const OPEN = '\n';

interface Text {
  readonly lines: readonly string[];
  readonly isEnded: boolean;
}

function split(text: string | undefined): Text {
  if (!text) return { lines: [], isEnded: true };
  const lines = text.split('\n');
  const isEnded = lines.at(-1) === '';
  return { lines: isEnded ? lines.slice(0, -1) : lines, isEnded };
}
