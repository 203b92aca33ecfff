/** Display properties of a tool call: icon, stage, title, changes and outcome. Pure. */

import type { FileEdit, ResponsePart, StringOrMarkdown, ToolCall, ToolResultContent, Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';
import { parsePartialJson } from './partial-json.ts';
import { inputSubject, relativePath } from './tool-input.ts';

const ICON_BY_KIND: Readonly<Record<string, IconName>> = {
  terminal: 'terminal',
  read: 'file',
  search: 'search',
  subagent: 'agent',
};

const ICON_BY_TOOL: Readonly<Record<string, IconName>> = {
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

export function toolCallIcon(call: ToolCall): IconName {
  const kind = call._meta?.toolKind;
  if (call._meta?.mcpServerName !== undefined || call.contributor?.kind === 'mcp') return 'host';
  return (typeof kind === 'string' ? ICON_BY_KIND[kind] : undefined) ?? ICON_BY_TOOL[call.toolName] ?? 'tool';
}

/** Input length that is parsed for the subject. */
const SUBJECT_PREVIEW_LENGTH = 2_000;

/** The display stage of a call. */
export type ToolCallStage = 'writing' | 'waiting' | 'running' | 'done' | 'failed' | 'denied' | 'skipped' | 'unknown';

/** Tools that only ask a question; while they run, they wait for a person. */
const QUESTION_TOOLS = new Set(['AskUserQuestion', 'ExitPlanMode']);

export function isQuestionTool(call: ToolCall): boolean {
  return QUESTION_TOOLS.has(call.toolName);
}

/** Whether the question of a call follows it in the turn and replaces it. */
export function isShownByInputRequest(call: ToolCall, parts: readonly ResponsePart[]): boolean {
  if (!isQuestionTool(call) || toolCallStage(call) === 'failed') return false;
  const at = parts.findIndex((part) => part.kind === 'toolCall' && part.toolCall.toolCallId === call.toolCallId);
  return at >= 0 && parts.slice(at + 1).some((part) => part.kind === 'inputRequest');
}

export function toolCallStage(call: ToolCall): ToolCallStage {
  switch (call.status) {
    case 'streaming':
      return 'writing';
    case 'pending-confirmation':
    case 'pending-result-confirmation':
    case 'auth-required':
      return 'waiting';
    case 'running':
      return isQuestionTool(call) ? 'waiting' : 'running';
    case 'completed':
      return call.success ? 'done' : 'failed';
    case 'cancelled':
      return call.reason === 'skipped' ? 'skipped' : 'denied';
    default:
      // Newer hosts may add statuses.
      return 'unknown';
  }
}

export function toolCallContent(call: ToolCall): readonly ToolResultContent[] {
  return ('content' in call ? call.content : undefined) ?? [];
}

/** The file edits that a call made or proposes. */
export function toolCallEdits(call: ToolCall): readonly FileEdit[] {
  if (call.status === 'pending-confirmation') return call.edits?.items ?? [];
  return toolCallContent(call).filter((content) => content.type === 'fileEdit');
}

export function toolCallChanges(call: ToolCall): { readonly added: number; readonly removed: number } | undefined {
  const diffs = toolCallEdits(call).flatMap(({ diff }) => diff ?? []);
  if (diffs.length === 0) return undefined;
  return {
    added: diffs.reduce((sum, { added = 0 }) => sum + added, 0),
    removed: diffs.reduce((sum, { removed = 0 }) => sum + removed, 0),
  };
}

/** The exit code of a command, if reported. */
export function toolCallExitCode(call: ToolCall): number | undefined {
  for (const content of toolCallContent(call)) {
    if (content.type === 'terminal') return content.result?.exitCode;
    if (content.type !== 'text' || toolCallStage(call) !== 'failed') continue;
    const match = /^Exit code (\d+)\b/.exec(content.text);
    if (match) return Number(match[1]);
  }
  return undefined;
}

/** A neutral title for calls that do not run, or not yet. */
export function toolCallTitle(call: ToolCall, directory?: string): StringOrMarkdown {
  const input = call.status === 'streaming' ? call.partialInput : call.toolInput;
  const subject =
    typeof input === 'string'
      ? inputSubject(parsePartialJson(input.slice(0, SUBJECT_PREVIEW_LENGTH)).value)
      : undefined;
  if (subject === undefined)
    return call.status === 'streaming' ? call.displayName : (call.invocationMessage ?? call.displayName);
  return { markdown: `${call.displayName} \`${relativePath(subject, directory).replaceAll('`', "'")}\`` };
}

/** Why a call was cancelled. */
export function cancellationReason(call: ToolCall): string | undefined {
  if (call.status !== 'cancelled') return undefined;
  const { reasonMessage, userSuggestion } = call;
  const message = typeof reasonMessage === 'string' ? reasonMessage : reasonMessage?.markdown;
  return [message, userSuggestion?.text].filter((text) => text?.trim()).join('\n') || undefined;
}

/** How the call was approved. */
export function permissionSummary(call: ToolCall): string | undefined {
  if (!('confirmed' in call) && call.status !== 'cancelled') return undefined;
  if (call.selectedOption) return strings.toolCalls.answered(call.selectedOption.label);
  if (!('confirmed' in call)) return undefined;
  if (call.confirmed === 'user-action') return strings.toolCalls.allowedByUser;
  return call.confirmed === 'setting' ? strings.toolCalls.allowedBySetting : undefined;
}

/** Id of the card element of a call or request. */
export function cardElementId(chat: Uri, kind: 'call' | 'request', id: string): string {
  return `${kind}-${id}@${chat}`;
}
