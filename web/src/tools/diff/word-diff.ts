/** Which words of a changed line are new: so that one does not have to look for a comma. */

import { compare } from './myers-diff.ts';

/** A part of a line. */
export interface Piece {
  readonly text: string;
  readonly changed: boolean;
}

/** Longer lines are generated, and nobody reads their words. */
const LONGEST = 600;

/** Lines that share less of their letters are two lines, not one that was changed. */
const ALIKE = 0.4;

const WORDS = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

/** Both lines in pieces, or nothing if marks would not help. */
export function marks(before: string, after: string): readonly [readonly Piece[], readonly Piece[]] | undefined {
  if (before.length > LONGEST || after.length > LONGEST) return undefined;
  const [one, other] = [before.match(WORDS) ?? [], after.match(WORDS) ?? []];
  const left: Piece[] = [];
  const right: Piece[] = [];
  let shared = 0;
  for (const stretch of compare(one, other)) {
    const changed = stretch.kind === 'changed';
    const [gone, come] = [one.slice(...stretch.before).join(''), other.slice(...stretch.after).join('')];
    if (!changed) shared += gone.trim().length;
    if (gone) left.push({ text: gone, changed });
    if (come) right.push({ text: come, changed });
  }
  const letters = Math.max(before.replace(/\s/g, '').length, after.replace(/\s/g, '').length);
  return shared >= letters * ALIKE && shared > 0 ? [left, right] : undefined;
}
