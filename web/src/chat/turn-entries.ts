/** The entries of a turn as displayed: single parts and collapsed groups of tool calls. Pure. */

import type { ActiveTurn, ResponsePart, StringOrMarkdown, ToolCall, Turn } from '../ahp/index.ts';

export type TurnEntry =
  | { readonly kind: 'part'; readonly key: string; readonly part: ResponsePart; readonly isLast: boolean }
  | {
      /** Finished calls and the reasoning between them, collapsed into one line. */
      readonly kind: 'steps';
      readonly key: string;
      readonly parts: readonly ResponsePart[];
      readonly calls: number;
      readonly failed: number;
    };

/** Fewer finished calls stay expanded. */
const MIN_COLLAPSED_CALLS = 3;

/**
 * The entries of a turn. Running and pending calls, and the latest calls of an active turn, stay expanded. Unchanged
 * entries keep the identity of the previous ones, so that nothing rerenders.
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
      // A single part is not collapsed; the next part may start a group.
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

/** The end of the finished calls and the reasoning between them. */
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
  // Calls that link to another chat stay visible.
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

/** The Markdown of an answer, for copying. */
export function answerText(turn: Turn | ActiveTurn): string {
  const texts = turn.responseParts.flatMap((part) => (part.kind === 'markdown' ? part.content.trim() : []));
  return texts.filter((text) => text !== '').join('\n\n');
}

/** The last line of reasoning, as a preview. */
export function lastLine(text: string, length = 120): string {
  const end = text.slice(-4 * length).trimEnd();
  const line = end.slice(end.lastIndexOf('\n') + 1).trim();
  return line.length > length ? `…${line.slice(-length)}` : line;
}

/** Estimated height of an unmeasured turn in pixels. */
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
