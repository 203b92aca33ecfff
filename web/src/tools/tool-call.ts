/** What a call is, in one glance. */

import type { FileEdit, ResponsePart, StringOrMarkdown, ToolCall, ToolResultContent, Uri } from '../ahp/index.ts';
import type { IconName } from '../ui/icons.ts';
import { readJson } from './partial-json.ts';
import { below, subjectOf } from './tool-input.ts';

const BY_KIND: Readonly<Record<string, IconName>> = {
  terminal: 'terminal',
  read: 'file',
  search: 'search',
  subagent: 'agent',
};

const BY_TOOL: Readonly<Record<string, IconName>> = {
  Edit: 'edit',
  MultiEdit: 'edit',
  NotebookEdit: 'edit',
  Write: 'edit',
  WebFetch: 'web',
  WebSearch: 'web',
  TodoWrite: 'plan',
  TaskCreate: 'plan',
  TaskUpdate: 'plan',
  TaskList: 'plan',
  TaskGet: 'plan',
  EnterPlanMode: 'plan',
  ExitPlanMode: 'plan',
  AskUserQuestion: 'question',
};

export function iconOf(call: ToolCall): IconName {
  const kind = call._meta?.toolKind;
  if (call._meta?.mcpServerName !== undefined || call.contributor?.kind === 'mcp') return 'host';
  return (typeof kind === 'string' ? BY_KIND[kind] : undefined) ?? BY_TOOL[call.toolName] ?? 'tool';
}

/** As much of an input as is read for a word about it. */
const BEGINNING = 2_000;

/** Where a call is on its way. */
export type Stage = 'writing' | 'waiting' | 'running' | 'done' | 'failed' | 'denied' | 'skipped' | 'unknown';

/** These do nothing but ask: while they run, a person is waited for. */
const ASKS = new Set(['AskUserQuestion', 'ExitPlanMode']);

export function asks(call: ToolCall): boolean {
  return ASKS.has(call.toolName);
}

/** Whether a call is shown well enough by the question that it asks, which stands behind it in the same turn. */
export function isSpokenFor(call: ToolCall, parts: readonly ResponsePart[]): boolean {
  if (!asks(call) || stageOf(call) === 'failed') return false;
  const at = parts.findIndex((part) => part.kind === 'toolCall' && part.toolCall.toolCallId === call.toolCallId);
  return at >= 0 && parts.slice(at + 1).some((part) => part.kind === 'inputRequest');
}

export function stageOf(call: ToolCall): Stage {
  switch (call.status) {
    case 'streaming':
      return 'writing';
    case 'pending-confirmation':
    case 'pending-result-confirmation':
    case 'auth-required':
      return 'waiting';
    case 'running':
      return asks(call) ? 'waiting' : 'running';
    case 'completed':
      return call.success ? 'done' : 'failed';
    case 'cancelled':
      return call.reason === 'skipped' ? 'skipped' : 'denied';
    default:
      // A newer host knows more of them.
      return 'unknown';
  }
}

export function contentOf(call: ToolCall): readonly ToolResultContent[] {
  return ('content' in call ? call.content : undefined) ?? [];
}

/** The files that a call has changed, or would change. */
export function editsOf(call: ToolCall): readonly FileEdit[] {
  if (call.status === 'pending-confirmation') return call.edits?.items ?? [];
  return contentOf(call).filter((content) => content.type === 'fileEdit');
}

export function changesOf(call: ToolCall): { readonly added: number; readonly removed: number } | undefined {
  const diffs = editsOf(call).flatMap(({ diff }) => diff ?? []);
  if (diffs.length === 0) return undefined;
  return {
    added: diffs.reduce((sum, { added = 0 }) => sum + added, 0),
    removed: diffs.reduce((sum, { removed = 0 }) => sum + removed, 0),
  };
}

/** The exit code of a command, as far as it is told. */
export function exitCodeOf(call: ToolCall): number | undefined {
  for (const content of contentOf(call)) {
    if (content.type === 'terminal') return content.result?.exitCode;
    if (content.type !== 'text' || stageOf(call) !== 'failed') continue;
    const told = /^Exit code (\d+)\b/.exec(content.text);
    if (told) return Number(told[1]);
  }
  return undefined;
}

/** What is to be done, without saying that it is being done: for calls that do not run, or not yet. */
export function nameOf(call: ToolCall, directory?: string): StringOrMarkdown {
  const input = call.status === 'streaming' ? call.partialInput : call.toolInput;
  const subject = typeof input === 'string' ? subjectOf(readJson(input.slice(0, BEGINNING)).value) : undefined;
  if (subject === undefined)
    return call.status === 'streaming' ? call.displayName : (call.invocationMessage ?? call.displayName);
  return { markdown: `${call.displayName} \`${below(subject, directory).replaceAll('`', "'")}\`` };
}

/** Why a call was not carried out, in somebody's words. */
export function reasonOf(call: ToolCall): string | undefined {
  if (call.status !== 'cancelled') return undefined;
  const { reasonMessage, userSuggestion } = call;
  const words = typeof reasonMessage === 'string' ? reasonMessage : reasonMessage?.markdown;
  return [words, userSuggestion?.text].filter((text) => text?.trim()).join('\n') || undefined;
}

/** Who let it pass, if somebody had to. */
export function permissionOf(call: ToolCall): string | undefined {
  if (!('confirmed' in call) && call.status !== 'cancelled') return undefined;
  if (call.selectedOption) return `Answered: ${call.selectedOption.label}`;
  if (!('confirmed' in call)) return undefined;
  if (call.confirmed === 'user-action') return 'Allowed by a person';
  return call.confirmed === 'setting' ? 'Allowed by a setting' : undefined;
}

/** The name of an element that shows a call or a request, for whoever wants to lead there. */
export function placeOf(chat: Uri, kind: 'call' | 'request', id: string): string {
  return `${kind}-${id}@${chat}`;
}
