/** The parts of an answer, as they stand under each other. */

import type { ActiveTurn, ResponsePart, StringOrMarkdown, ToolCall, Turn } from '../ahp/index.ts';

export type TurnEntry =
  | { readonly kind: 'part'; readonly key: string; readonly part: ResponsePart; readonly isLast: boolean }
  | {
      /** Calls that are over, with what was thought between them, folded into one line. */
      readonly kind: 'steps';
      readonly key: string;
      readonly parts: readonly ResponsePart[];
      readonly calls: number;
      readonly failed: number;
    };

/** Fewer calls than these stand by themselves. */
const MIN_COLLAPSED_CALLS = 3;

/**
 * The entries of a turn. What runs, waits, or was done last while the turn goes on stands open. Entries that did not change are
 * those of `before`, so that nothing is shown anew.
 */
export function turnEntries(turn: Turn | ActiveTurn, previous: readonly TurnEntry[] = []): readonly TurnEntry[] {
  const parts = turn.responseParts;
  const isRunning = isActiveTurn(turn);
  const entries: TurnEntry[] = [];
  let at = 0;
  while (at < parts.length) {
    const end = endOfCollapsibleCalls(parts, at);
    const steps = parts.slice(at, end);
    const calls = steps.filter((part) => part.kind === 'toolCall');
    if (calls.length >= MIN_COLLAPSED_CALLS && (end < parts.length || !isRunning)) {
      const failed = calls.filter((part) => part.kind === 'toolCall' && hasFailed(part.toolCall)).length;
      entries.push({ kind: 'steps', key: `s${at}`, parts: steps, calls: calls.length, failed });
      at = end;
    } else {
      // Alone it is no step: the next one may begin steps of its own.
      const until = Math.max(end, at + 1);
      for (; at < until; at += 1) {
        const part = parts[at];
        if (part) entries.push({ kind: 'part', key: `p${at}`, part, isLast: isRunning && at === parts.length - 1 });
      }
    }
  }
  return entries.map((entry, index) => {
    const old = previous[index];
    return old && isSameEntry(old, entry) ? old : entry;
  });
}

/** Whether a turn is still running. */
export function isActiveTurn(turn: Turn | ActiveTurn): turn is ActiveTurn {
  return !('state' in turn);
}

/** Where the calls that are over, and the thoughts between them, end. */
function endOfCollapsibleCalls(parts: readonly ResponsePart[], from: number): number {
  let end = from;
  for (let at = from; at < parts.length; at += 1) {
    const part = parts[at];
    if (part?.kind === 'toolCall' && isCollapsible(part.toolCall)) end = at + 1;
    else if (part?.kind !== 'reasoning') break;
  }
  return end;
}

function isCollapsible(call: ToolCall): boolean {
  if (call.status === 'cancelled') return true;
  // What leads to another chat stays in sight.
  return call.status === 'completed' && !call.content?.some((content) => content.type === 'subagent');
}

function hasFailed(call: ToolCall): boolean {
  return call.status === 'completed' && !call.success;
}

function isSameEntry(one: TurnEntry, other: TurnEntry): boolean {
  if (one.key !== other.key) return false;
  if (one.kind === 'part') return other.kind === 'part' && one.part === other.part && one.isLast === other.isLast;
  if (other.kind === 'part' || one.parts.length !== other.parts.length) return false;
  return one.parts.every((part, at) => part === other.parts[at]);
}

export function markdownSource(text: StringOrMarkdown): string {
  return typeof text === 'string' ? text : text.markdown;
}

/** The words of an answer, as they are copied. */
export function answerText(turn: Turn | ActiveTurn): string {
  const texts = turn.responseParts.flatMap((part) => (part.kind === 'markdown' ? part.content.trim() : []));
  return texts.filter((text) => text !== '').join('\n\n');
}

/** The end of what is thought, in one line. */
export function lastLine(text: string, length = 120): string {
  const end = text.slice(-4 * length).trimEnd();
  const line = end.slice(end.lastIndexOf('\n') + 1).trim();
  return line.length > length ? `…${line.slice(-length)}` : line;
}

/** How high a turn that was never shown probably is, in pixels. */
export function estimateTurnHeight(turn: Turn | ActiveTurn): number {
  let height = 96 + estimateLines(turn.message.text) * 22;
  for (const part of turn.responseParts) {
    if (part.kind === 'markdown') height += 14 + estimateLines(part.content) * 24;
    else height += 34;
  }
  return Math.min(height, 6_000);
}

function estimateLines(text: string): number {
  return Math.min(200, Math.ceil(text.length / 90) + (text.length < 4_000 ? text.split('\n').length - 1 : 20));
}
