/** Word diff of a changed line. Pure. */

import { diffSequences } from './myers-diff.ts';

/** A part of a line. */
export interface WordDiffSpan {
  readonly text: string;
  readonly isChanged: boolean;
}

/** Longer lines are usually generated and are not compared. */
const MAX_LINE_LENGTH = 600;

/** Less similar lines are shown as unrelated. */
const MIN_SIMILARITY = 0.4;

const WORD_PATTERN = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

/** Both lines split into spans; undefined if they are too long or dissimilar. */
export function diffWords(
  before: string,
  after: string,
): readonly [readonly WordDiffSpan[], readonly WordDiffSpan[]] | undefined {
  if (before.length > MAX_LINE_LENGTH || after.length > MAX_LINE_LENGTH) return undefined;
  const [one, other] = [before.match(WORD_PATTERN) ?? [], after.match(WORD_PATTERN) ?? []];
  const left: WordDiffSpan[] = [];
  const right: WordDiffSpan[] = [];
  let shared = 0;
  for (const range of diffSequences(one, other)) {
    const changed = range.kind === 'changed';
    const [removedText, addedText] = [one.slice(...range.before).join(''), other.slice(...range.after).join('')];
    if (!changed) shared += removedText.trim().length;
    if (removedText) left.push({ text: removedText, isChanged: changed });
    if (addedText) right.push({ text: addedText, isChanged: changed });
  }
  const letters = Math.max(before.replace(/\s/g, '').length, after.replace(/\s/g, '').length);
  return shared >= letters * MIN_SIMILARITY && shared > 0 ? [left, right] : undefined;
}
