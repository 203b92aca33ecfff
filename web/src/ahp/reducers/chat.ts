/** Reducer for chat channels: turns, response parts, pending messages and input requests. */

import type {
  Action,
  ActiveTurn,
  ChatInputRequest,
  ChatState,
  ErrorPart,
  InputRequestPart,
  ResponsePart,
  Turn,
} from '../types/index.ts';
import { StatusFlag } from '../types/index.ts';
import { omitKey, omitUndefined, removeItem, setFlag, setKey, upsert } from './objects.ts';
import { removeDirectory, setDirectory } from './session.ts';
import { needsInput, reduceToolCall, skipCall } from './toolcall.ts';

export function reduceChat(state: ChatState, action: Action): ChatState {
  switch (action.type) {
    case 'chat/turnStarted':
      return startTurn(state, action);
    case 'chat/delta':
      return appendContent(state, action.turnId, action.partId, 'markdown', action.content);
    case 'chat/reasoning':
      return appendContent(state, action.turnId, action.partId, 'reasoning', action.content);
    case 'chat/responsePart':
      // An error ends the turn through its own action.
      return action.part.kind === 'error' ? state : addPart(state, action.turnId, action.part);
    case 'chat/usage':
      return updateTurn(state, action.turnId, (turn) => ({ ...turn, usage: action.usage }));
    case 'chat/turnComplete':
      return endTurn(state, action, 'complete');
    case 'chat/turnCancelled':
      return endTurn(state, action, 'cancelled');
    case 'chat/error':
      return endTurn(state, action, 'error', action.part);
    case 'chat/turnResume':
      return resumeTurn(state, action.turnId);
    case 'chat/toolCallStart': {
      const { toolCallId, toolName, displayName, intention, contributor, _meta } = action;
      const call = { status: 'streaming' as const, toolCallId, toolName, displayName, intention, contributor, _meta };
      return addPart(state, action.turnId, { kind: 'toolCall', toolCall: omitUndefined(call) });
    }
    case 'chat/toolCallDelta':
    case 'chat/toolCallReady':
    case 'chat/toolCallConfirmed':
    case 'chat/toolCallComplete':
    case 'chat/toolCallResultConfirmed':
    case 'chat/toolCallContentChanged':
    case 'chat/toolCallAuthRequired':
    case 'chat/toolCallAuthResolved':
      return reduceCall(state, action);
    case 'chat/inputRequested':
      return addInputRequest(state, action.request);
    case 'chat/inputAnswerChanged':
      return updateRequest(state, action.requestId, (part) => {
        const answers = setKey({ ...part.request.answers }, action.questionId, action.answer);
        return { ...part, request: mergeAnswers(part.request, answers) };
      });
    case 'chat/inputCompleted': {
      const next = updateRequest(state, action.requestId, (part) => {
        const answers = { ...part.request.answers, ...action.answers };
        return { ...part, request: mergeAnswers(part.request, answers), response: action.response };
      });
      return next === state ? state : refreshStatus(next);
    }
    case 'chat/truncated':
      return truncateTurns(state, action.turnId);
    case 'chat/turnsLoaded': {
      const known = new Set(state.turns.map((turn) => turn.id));
      const older = action.turns.filter((turn) => !known.has(turn.id));
      const turns = older.length > 0 ? [...older, ...state.turns] : state.turns;
      return setKey({ ...state, turns }, 'turnsNextCursor', action.turnsNextCursor);
    }
    case 'chat/activityChanged':
      return setKey(state, 'activity', action.activity);
    case 'chat/isReadChanged':
      return { ...state, status: setFlag(state.status, StatusFlag.isRead, action.isRead) };
    case 'chat/isArchivedChanged':
      return { ...state, status: setFlag(state.status, StatusFlag.isArchived, action.isArchived) };
    case 'chat/movableChanged':
      return { ...state, movable: action.movable };
    case 'chat/changesetsChanged':
      return setKey(state, 'changesets', action.changesets);
    case 'chat/canvasesChanged':
      return setKey(state, 'canvases', action.canvases);
    case 'chat/backgroundWorkSet': {
      const { work } = action;
      if (typeof work.id !== 'string') return state;
      return { ...state, backgroundWork: upsert(state.backgroundWork, work, (other) => other.id === work.id) };
    }
    case 'chat/backgroundWorkRemoved': {
      const backgroundWork = state.backgroundWork && removeItem(state.backgroundWork, (work) => work.id === action.id);
      return backgroundWork === state.backgroundWork ? state : setKey(state, 'backgroundWork', backgroundWork);
    }
    case 'chat/workingDirectorySet':
      return setDirectory(state, action.directory);
    case 'chat/workingDirectoryRemoved':
      return removeDirectory(state, action.directory);
    case 'chat/draftChanged':
      return setKey(state, 'draft', action.draft);
    default:
      return reducePending(state, action);
  }
}

/** Pending messages: one steering message and a queue. */
function reducePending(state: ChatState, action: Action): ChatState {
  switch (action.type) {
    case 'chat/pendingMessageSet': {
      const entry = { id: action.id, message: action.message };
      if (action.kind === 'steering') return { ...state, steeringMessage: entry };
      return { ...state, queuedMessages: upsert(state.queuedMessages, entry, (other) => other.id === entry.id) };
    }
    case 'chat/pendingMessageRemoved':
      return action.kind === 'steering' ? removeSteering(state, action.id) : removeQueued(state, action.id);
    case 'chat/queuedMessagesReordered': {
      const queue = state.queuedMessages;
      if (!queue) return state;
      const waiting = new Map(queue.map((message) => [message.id, message]));
      const ordered = [...new Set(action.order)].flatMap((id) => waiting.get(id) ?? []);
      // Messages that the order does not name follow in their current order.
      const rest = queue.filter((message) => !ordered.includes(message));
      return { ...state, queuedMessages: [...ordered, ...rest] };
    }
    default:
      return state;
  }
}

function removeSteering(state: ChatState, id: string): ChatState {
  return state.steeringMessage?.id === id ? omitKey(state, 'steeringMessage') : state;
}

function removeQueued(state: ChatState, id: string): ChatState {
  const queue = state.queuedMessages ?? [];
  const left = removeItem(queue, (message) => message.id === id);
  return left === queue ? state : setKey(state, 'queuedMessages', left.length > 0 ? left : undefined);
}

/** Maximum turn duration, a hundred years, so that the end of a turn is a valid date. */
const MAX_TURN_DURATION_MS = 100 * 366 * 24 * 60 * 60 * 1000;
const MAX_TIMESTAMP_MS = Date.parse('9999-12-31T23:59:59.999Z');
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)$/;

function isValidStart(text: string): boolean {
  return RFC_3339.test(text) && Date.parse(text) + MAX_TURN_DURATION_MS <= MAX_TIMESTAMP_MS;
}

function startTurn(state: ChatState, action: Action & { type: 'chat/turnStarted' }): ChatState {
  // A running turn is never replaced by another one.
  if (state.activeTurn || !isValidStart(action.startedAt)) return state;
  const { turnId: id, startedAt, message, queuedMessageId } = action;
  const started = { ...state, activeTurn: { id, startedAt, message, responseParts: [] }, modifiedAt: startedAt };
  const unread = markUnread(refreshStatus(started));
  return queuedMessageId === undefined
    ? unread
    : removeQueued(removeSteering(unread, queuedMessageId), queuedMessageId);
}

function endTurn(
  state: ChatState,
  action: { turnId: string; duration: number },
  as: Turn['state'],
  error?: ErrorPart,
): ChatState {
  const turn = state.activeTurn;
  if (turn?.id !== action.turnId) return state;
  const duration = Math.max(0, action.duration);
  const end = Date.parse(turn.startedAt) + duration;
  // A state from another source may hold a turn with an invalid start; it ends without a timestamp.
  if (!(end <= MAX_TIMESTAMP_MS)) return state;
  const parts = turn.responseParts.map((part) =>
    part.kind === 'toolCall' ? { ...part, toolCall: skipCall(part.toolCall) } : part,
  );
  const past = omitUndefined<Turn>({
    id: turn.id,
    startedAt: turn.startedAt,
    duration,
    message: turn.message,
    responseParts: error ? [...parts, { ...error, kind: 'error' }] : parts,
    usage: turn.usage,
    state: as,
  });
  const next = { ...state, turns: [...state.turns, past], modifiedAt: new Date(end).toISOString() };
  return refreshStatus(omitKey(next, 'activeTurn'), as === 'error' ? StatusFlag.error : undefined);
}

/** Reopens the last turn if its error is resumable. */
function resumeTurn(state: ChatState, turnId: string): ChatState {
  const turn = state.turns.at(-1);
  if (state.activeTurn || turn?.id !== turnId || turn.state !== 'error') return state;
  const last = turn.responseParts.at(-1);
  if (last?.kind !== 'error' || last.resumable !== true) return state;
  const { state: _ended, duration: _took, startedAt = state.modifiedAt, ...rest } = turn;
  return markUnread(refreshStatus({ ...state, turns: state.turns.slice(0, -1), activeTurn: { ...rest, startedAt } }));
}

function truncateTurns(state: ChatState, turnId: string | undefined): ChatState {
  if (turnId === undefined || turnId === null) {
    return refreshStatus(omitKey(omitKey({ ...state, turns: [] }, 'turnsNextCursor'), 'activeTurn'));
  }
  const at = state.turns.findIndex((turn) => turn.id === turnId);
  return at < 0 ? state : refreshStatus(omitKey({ ...state, turns: state.turns.slice(0, at + 1) }, 'activeTurn'));
}

function updateTurn(state: ChatState, turnId: string, change: (turn: ActiveTurn) => ActiveTurn): ChatState {
  const turn = state.activeTurn;
  if (turn?.id !== turnId) return state;
  const next = change(turn);
  return next === turn ? state : { ...state, activeTurn: next };
}

function addPart(state: ChatState, turnId: string, part: ResponsePart): ChatState {
  return updateTurn(state, turnId, (turn) => ({ ...turn, responseParts: [...turn.responseParts, part] }));
}

function appendContent(
  state: ChatState,
  turnId: string,
  partId: string,
  kind: 'markdown' | 'reasoning',
  content: string,
): ChatState {
  return updateTurn(state, turnId, (turn) => {
    const at = turn.responseParts.findIndex((part) => idOf(part) === partId);
    const part = turn.responseParts[at];
    if (part?.kind !== kind) return turn;
    return { ...turn, responseParts: turn.responseParts.with(at, { ...part, content: part.content + content }) };
  });
}

function idOf(part: ResponsePart): string | undefined {
  if (part.kind === 'toolCall') return part.toolCall.toolCallId;
  return part.kind === 'markdown' || part.kind === 'reasoning' ? part.id : undefined;
}

function reduceCall(state: ChatState, action: Parameters<typeof reduceToolCall>[1]): ChatState {
  const next = updateTurn(state, action.turnId, (turn) => {
    const fits = (part: ResponsePart) => part.kind === 'toolCall' && part.toolCall.toolCallId === action.toolCallId;
    const at = turn.responseParts.findIndex(fits);
    const part = turn.responseParts[at];
    if (part?.kind !== 'toolCall') return turn;
    const toolCall = reduceToolCall(part.toolCall, action);
    return toolCall === part.toolCall
      ? turn
      : { ...turn, responseParts: turn.responseParts.with(at, { ...part, toolCall }) };
  });
  // Streaming input and output do not change the status.
  const quiet = action.type === 'chat/toolCallDelta' || action.type === 'chat/toolCallContentChanged';
  return next === state || quiet ? next : refreshStatus(next);
}

function isOpen(part: ResponsePart, id?: string): part is InputRequestPart {
  return (
    part.kind === 'inputRequest' &&
    (part.response ?? undefined) === undefined &&
    (id === undefined || part.request.id === id)
  );
}

function updateRequest(state: ChatState, id: string, change: (part: InputRequestPart) => InputRequestPart): ChatState {
  const turn = state.activeTurn;
  const at = turn?.responseParts.findIndex((part) => isOpen(part, id)) ?? -1;
  const part = turn?.responseParts[at];
  if (!turn || part?.kind !== 'inputRequest') return state;
  return { ...state, activeTurn: { ...turn, responseParts: turn.responseParts.with(at, change(part)) } };
}

function addInputRequest(state: ChatState, request: ChatInputRequest): ChatState {
  if (!state.activeTurn) return state;
  // A repeated request keeps the answers so far.
  const again = updateRequest(state, request.id, (part) => {
    const answers = request.answers ?? part.request.answers;
    return { ...omitKey(part, 'response'), request: setKey(request, 'answers', answers) };
  });
  const next = again === state ? addPart(state, state.activeTurn.id, { kind: 'inputRequest', request }) : again;
  return markUnread(refreshStatus(next));
}

function mergeAnswers(request: ChatInputRequest, answers: ChatInputRequest['answers']): ChatInputRequest {
  const some = answers && Object.keys(answers).length > 0;
  return setKey(request, 'answers', some ? answers : undefined);
}

/** Sets the activity bits of the status, or the final status of a turn. */
function refreshStatus(state: ChatState, end?: number): ChatState {
  const parts = state.activeTurn?.responseParts ?? [];
  const waits = parts.some((part) => isOpen(part) || (part.kind === 'toolCall' && needsInput(part.toolCall)));
  const doing = waits ? StatusFlag.inputNeeded : state.activeTurn ? StatusFlag.inProgress : StatusFlag.idle;
  const status = (state.status & ~StatusFlag.activity) | (end ?? doing);
  return status === state.status ? state : { ...state, status };
}

function markUnread(state: ChatState): ChatState {
  return { ...state, status: setFlag(state.status, StatusFlag.isRead, false) };
}
