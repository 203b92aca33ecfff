/** Reducer for tool calls inside a chat. */

import type {
  Contributor,
  ToolCall,
  ToolCallAction,
  ToolCallCancelled,
  ToolCallCompleted,
  ToolCallPending,
  ToolCallPendingResult,
  ToolCallRunning,
} from '../types/index.ts';
import { omitUndefined } from './objects.ts';

/** Reduces a tool call. An action that does not fit the status is ignored. */
export function reduceToolCall(call: ToolCall, action: ToolCallAction): ToolCall {
  const _meta = action._meta ?? call._meta;
  switch (action.type) {
    case 'chat/toolCallDelta': {
      if (call.status !== 'streaming') return call;
      const partialInput =
        action.content === undefined ? call.partialInput : (call.partialInput ?? '') + action.content;
      return omitUndefined({
        ...call,
        _meta,
        partialInput,
        invocationMessage: action.invocationMessage ?? call.invocationMessage,
      });
    }
    case 'chat/toolCallReady':
      return markReady(call, action);
    case 'chat/toolCallConfirmed':
      return call.status === 'pending-confirmation' ? confirmCall(call, action) : call;
    case 'chat/toolCallComplete':
      return completeCall(call, action);
    case 'chat/toolCallResultConfirmed': {
      if (call.status !== 'pending-result-confirmation') return call;
      if (action.approved) return omitUndefined<ToolCallCompleted>({ ...call, _meta, status: 'completed' });
      const { selectedOption } = call;
      return omitUndefined<ToolCallCancelled>({
        ...commonFields(call),
        _meta,
        status: 'cancelled',
        reason: 'result-denied',
        selectedOption,
      });
    }
    case 'chat/toolCallContentChanged':
      return call.status === 'running'
        ? omitUndefined<ToolCallRunning>({ ...call, _meta, content: action.content })
        : call;
    case 'chat/toolCallAuthRequired':
      if (call.status !== 'running' || call.contributor?.kind !== 'mcp') return call;
      return omitUndefined({ ...call, _meta, status: 'auth-required' as const, auth: action.auth });
    case 'chat/toolCallAuthResolved': {
      if (call.status !== 'auth-required') return call;
      const { auth: _resolved, ...rest } = call;
      return omitUndefined<ToolCallRunning>({ ...rest, _meta, status: 'running' });
    }
  }
}

/** Whether a call waits for a person. */
export function needsInput(call: ToolCall): boolean {
  return ['pending-confirmation', 'pending-result-confirmation', 'auth-required'].includes(call.status);
}

/** Cancels an unfinished call when its turn ends. */
export function skipCall(call: ToolCall): ToolCall {
  if (call.status === 'completed' || call.status === 'cancelled') return call;
  return omitUndefined<ToolCallCancelled>({ ...commonFields(call), status: 'cancelled', reason: 'skipped' });
}

/** The fields that every call has after streaming. */
function commonFields(call: ToolCall) {
  const { toolCallId, toolName, displayName, intention, contributor, _meta } = call;
  const toolInput = call.status === 'streaming' ? undefined : call.toolInput;
  const invocationMessage = call.invocationMessage ?? '';
  return { toolCallId, toolName, displayName, intention, contributor, _meta, invocationMessage, toolInput };
}

function markReady(call: ToolCall, action: ToolCallAction & { type: 'chat/toolCallReady' }): ToolCall {
  if (call.status !== 'streaming' && call.status !== 'running' && call.status !== 'pending-confirmation') return call;
  const before = commonFields(call);
  const base = {
    ...before,
    intention: action.intention ?? before.intention,
    toolInput: action.toolInput ?? before.toolInput,
    contributor: mergeContributor(before.contributor, action.contributor),
    _meta: action._meta ?? before._meta,
    invocationMessage: action.invocationMessage,
  };
  if (action.confirmed)
    return omitUndefined<ToolCallRunning>({ ...base, status: 'running', confirmed: action.confirmed });
  // A repeated confirmation request keeps fields that are omitted.
  const pending = call.status === 'pending-confirmation' ? call : undefined;
  return omitUndefined<ToolCallPending>({
    ...base,
    status: 'pending-confirmation',
    confirmationTitle: action.confirmationTitle ?? pending?.confirmationTitle,
    riskAssessment: action.riskAssessment ?? pending?.riskAssessment,
    edits: action.edits ?? pending?.edits,
    editable: action.editable ?? pending?.editable,
    options: action.options ?? pending?.options,
  });
}

/** The contributor may arrive later, but a client's call keeps its client, and no other call becomes a client's. */
function mergeContributor(now: Contributor | undefined, next: Contributor | undefined): Contributor | undefined {
  if (!next) return now;
  if (now?.kind === 'client') return next.kind === 'client' && next.clientId === now.clientId ? next : now;
  return next.kind === 'client' ? now : next;
}

function confirmCall(call: ToolCallPending, action: ToolCallAction & { type: 'chat/toolCallConfirmed' }): ToolCall {
  const base = { ...commonFields(call), _meta: action._meta ?? call._meta };
  const selectedOption = call.options?.find((option) => option.id === action.selectedOptionId);
  if (!action.approved) {
    const { reason = 'denied', reasonMessage, userSuggestion } = action;
    return omitUndefined<ToolCallCancelled>({
      ...base,
      status: 'cancelled',
      reason,
      reasonMessage,
      userSuggestion,
      selectedOption,
    });
  }
  // The host rewrites input that is stored as a resource.
  const toolInput = typeof call.toolInput === 'string' ? (action.editedToolInput ?? call.toolInput) : call.toolInput;
  const reason = action.confirmed ?? 'not-needed';
  return omitUndefined<ToolCallRunning>({ ...base, status: 'running', toolInput, confirmed: reason, selectedOption });
}

function completeCall(call: ToolCall, action: ToolCallAction & { type: 'chat/toolCallComplete' }): ToolCall {
  const { result } = action;
  const authRequired = call.status === 'auth-required';
  if (call.status !== 'running' && call.status !== 'pending-confirmation' && !authRequired) return call;
  // A call that still needs authentication has not run, so only a failure can end it.
  if (authRequired && result.success) return call;
  const pending = call.status === 'pending-confirmation';
  const reviewed = action.requiresResultConfirmation === true && !authRequired;
  return omitUndefined<ToolCallCompleted | ToolCallPendingResult>({
    ...commonFields(call),
    _meta: action._meta ?? call._meta,
    status: reviewed ? 'pending-result-confirmation' : 'completed',
    confirmed: pending ? 'not-needed' : call.confirmed,
    selectedOption: pending ? undefined : call.selectedOption,
    success: result.success,
    pastTenseMessage: result.pastTenseMessage,
    content: result.content ?? (authRequired ? call.content : undefined),
    structuredContent: result.structuredContent,
    error: result.error,
  });
}
