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
import { Status } from '../types/index.ts';
import { compact, flagged, put, removed, upsert, without } from './objects.ts';
import { directoryRemoved, directorySet } from './session.ts';
import { blocks, reduceToolCall, skipped } from './toolcall.ts';

export function reduceChat(state: ChatState, action: Action): ChatState {
  switch (action.type) {
    case 'chat/turnStarted':
      return turnStarted(state, action);
    case 'chat/delta':
      return appended(state, action.turnId, action.partId, 'markdown', action.content);
    case 'chat/reasoning':
      return appended(state, action.turnId, action.partId, 'reasoning', action.content);
    case 'chat/responsePart':
      // An error ends a turn and comes by an action of its own.
      return action.part.kind === 'error' ? state : withPart(state, action.turnId, action.part);
    case 'chat/usage':
      return inTurn(state, action.turnId, (turn) => ({ ...turn, usage: action.usage }));
    case 'chat/turnComplete':
      return ended(state, action, 'complete');
    case 'chat/turnCancelled':
      return ended(state, action, 'cancelled');
    case 'chat/error':
      return ended(state, action, 'error', action.part);
    case 'chat/turnResume':
      return resumed(state, action.turnId);
    case 'chat/toolCallStart': {
      const { toolCallId, toolName, displayName, intention, contributor, _meta } = action;
      const call = { status: 'streaming' as const, toolCallId, toolName, displayName, intention, contributor, _meta };
      return withPart(state, action.turnId, { kind: 'toolCall', toolCall: compact(call) });
    }
    case 'chat/toolCallDelta':
    case 'chat/toolCallReady':
    case 'chat/toolCallConfirmed':
    case 'chat/toolCallComplete':
    case 'chat/toolCallResultConfirmed':
    case 'chat/toolCallContentChanged':
    case 'chat/toolCallAuthRequired':
    case 'chat/toolCallAuthResolved':
      return callMoved(state, action);
    case 'chat/inputRequested':
      return inputRequested(state, action.request);
    case 'chat/inputAnswerChanged':
      return inRequest(state, action.requestId, (part) => {
        const answers = put({ ...part.request.answers }, action.questionId, action.answer);
        return { ...part, request: answered(part.request, answers) };
      });
    case 'chat/inputCompleted': {
      const next = inRequest(state, action.requestId, (part) => {
        const answers = { ...part.request.answers, ...action.answers };
        return { ...part, request: answered(part.request, answers), response: action.response };
      });
      return next === state ? state : refreshed(next);
    }
    case 'chat/truncated':
      return truncated(state, action.turnId);
    case 'chat/turnsLoaded': {
      const known = new Set(state.turns.map((turn) => turn.id));
      const older = action.turns.filter((turn) => !known.has(turn.id));
      const turns = older.length > 0 ? [...older, ...state.turns] : state.turns;
      return put({ ...state, turns }, 'turnsNextCursor', action.turnsNextCursor);
    }
    case 'chat/activityChanged':
      return put(state, 'activity', action.activity);
    case 'chat/isReadChanged':
      return { ...state, status: flagged(state.status, Status.isRead, action.isRead) };
    case 'chat/isArchivedChanged':
      return { ...state, status: flagged(state.status, Status.isArchived, action.isArchived) };
    case 'chat/movableChanged':
      return { ...state, movable: action.movable };
    case 'chat/changesetsChanged':
      return put(state, 'changesets', action.changesets);
    case 'chat/canvasesChanged':
      return put(state, 'canvases', action.canvases);
    case 'chat/backgroundWorkSet': {
      const { work } = action;
      if (typeof work.id !== 'string') return state;
      return { ...state, backgroundWork: upsert(state.backgroundWork, work, (other) => other.id === work.id) };
    }
    case 'chat/backgroundWorkRemoved': {
      const backgroundWork = state.backgroundWork && removed(state.backgroundWork, (work) => work.id === action.id);
      return backgroundWork === state.backgroundWork ? state : put(state, 'backgroundWork', backgroundWork);
    }
    case 'chat/workingDirectorySet':
      return directorySet(state, action.directory);
    case 'chat/workingDirectoryRemoved':
      return directoryRemoved(state, action.directory);
    case 'chat/draftChanged':
      return put(state, 'draft', action.draft);
    default:
      return reducePending(state, action);
  }
}

/** Messages that wait: one for the running turn, and a queue. */
function reducePending(state: ChatState, action: Action): ChatState {
  switch (action.type) {
    case 'chat/pendingMessageSet': {
      const entry = { id: action.id, message: action.message };
      if (action.kind === 'steering') return { ...state, steeringMessage: entry };
      return { ...state, queuedMessages: upsert(state.queuedMessages, entry, (other) => other.id === entry.id) };
    }
    case 'chat/pendingMessageRemoved':
      return action.kind === 'steering' ? unsteered(state, action.id) : unqueued(state, action.id);
    case 'chat/queuedMessagesReordered': {
      const queue = state.queuedMessages;
      if (!queue) return state;
      const waiting = new Map(queue.map((message) => [message.id, message]));
      const wanted = [...new Set(action.order)].flatMap((id) => waiting.get(id) ?? []);
      // Those that are not named stay as they are, behind the others.
      const rest = queue.filter((message) => !wanted.includes(message));
      return { ...state, queuedMessages: [...wanted, ...rest] };
    }
    default:
      return state;
  }
}

function unsteered(state: ChatState, id: string): ChatState {
  return state.steeringMessage?.id === id ? without(state, 'steeringMessage') : state;
}

function unqueued(state: ChatState, id: string): ChatState {
  const queue = state.queuedMessages ?? [];
  const left = removed(queue, (message) => message.id === id);
  return left === queue ? state : put(state, 'queuedMessages', left.length > 0 ? left : undefined);
}

/** The longest turn in milliseconds, a hundred years: a beginning must leave room for an end. */
const LONGEST = 100 * 366 * 24 * 60 * 60 * 1000;
const LAST_MOMENT = Date.parse('9999-12-31T23:59:59.999Z');
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)$/;

function isBeginning(text: string): boolean {
  return RFC_3339.test(text) && Date.parse(text) + LONGEST <= LAST_MOMENT;
}

function turnStarted(state: ChatState, action: Action & { type: 'chat/turnStarted' }): ChatState {
  // A turn that runs is never lost to another one.
  if (state.activeTurn || !isBeginning(action.startedAt)) return state;
  const { turnId: id, startedAt, message, queuedMessageId } = action;
  const begun = { ...state, activeTurn: { id, startedAt, message, responseParts: [] }, modifiedAt: startedAt };
  const unread = unseen(refreshed(begun));
  return queuedMessageId === undefined ? unread : unqueued(unsteered(unread, queuedMessageId), queuedMessageId);
}

function ended(
  state: ChatState,
  action: { turnId: string; duration: number },
  as: Turn['state'],
  error?: ErrorPart,
): ChatState {
  const turn = state.activeTurn;
  if (turn?.id !== action.turnId) return state;
  const duration = Math.max(0, action.duration);
  const end = Date.parse(turn.startedAt) + duration;
  // A state from elsewhere may hold a turn that cannot end; nothing is better than a broken time.
  if (!(end <= LAST_MOMENT)) return state;
  const parts = turn.responseParts.map((part) =>
    part.kind === 'toolCall' ? { ...part, toolCall: skipped(part.toolCall) } : part,
  );
  const past = compact<Turn>({
    id: turn.id,
    startedAt: turn.startedAt,
    duration,
    message: turn.message,
    responseParts: error ? [...parts, { ...error, kind: 'error' }] : parts,
    usage: turn.usage,
    state: as,
  });
  const next = { ...state, turns: [...state.turns, past], modifiedAt: new Date(end).toISOString() };
  return refreshed(without(next, 'activeTurn'), as === 'error' ? Status.error : undefined);
}

/** Opens the last turn again, where its failure allows it. */
function resumed(state: ChatState, turnId: string): ChatState {
  const turn = state.turns.at(-1);
  if (state.activeTurn || turn?.id !== turnId || turn.state !== 'error') return state;
  const last = turn.responseParts.at(-1);
  if (last?.kind !== 'error' || last.resumable !== true) return state;
  const { state: _ended, duration: _took, startedAt = state.modifiedAt, ...rest } = turn;
  return unseen(refreshed({ ...state, turns: state.turns.slice(0, -1), activeTurn: { ...rest, startedAt } }));
}

function truncated(state: ChatState, turnId: string | undefined): ChatState {
  if (turnId === undefined || turnId === null) {
    return refreshed(without(without({ ...state, turns: [] }, 'turnsNextCursor'), 'activeTurn'));
  }
  const at = state.turns.findIndex((turn) => turn.id === turnId);
  return at < 0 ? state : refreshed(without({ ...state, turns: state.turns.slice(0, at + 1) }, 'activeTurn'));
}

function inTurn(state: ChatState, turnId: string, change: (turn: ActiveTurn) => ActiveTurn): ChatState {
  const turn = state.activeTurn;
  if (turn?.id !== turnId) return state;
  const next = change(turn);
  return next === turn ? state : { ...state, activeTurn: next };
}

function withPart(state: ChatState, turnId: string, part: ResponsePart): ChatState {
  return inTurn(state, turnId, (turn) => ({ ...turn, responseParts: [...turn.responseParts, part] }));
}

function appended(
  state: ChatState,
  turnId: string,
  partId: string,
  kind: 'markdown' | 'reasoning',
  content: string,
): ChatState {
  return inTurn(state, turnId, (turn) => {
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

function callMoved(state: ChatState, action: Parameters<typeof reduceToolCall>[1]): ChatState {
  const next = inTurn(state, action.turnId, (turn) => {
    const fits = (part: ResponsePart) => part.kind === 'toolCall' && part.toolCall.toolCallId === action.toolCallId;
    const at = turn.responseParts.findIndex(fits);
    const part = turn.responseParts[at];
    if (part?.kind !== 'toolCall') return turn;
    const toolCall = reduceToolCall(part.toolCall, action);
    return toolCall === part.toolCall
      ? turn
      : { ...turn, responseParts: turn.responseParts.with(at, { ...part, toolCall }) };
  });
  // Growing input and output do not change what the chat waits for.
  const quiet = action.type === 'chat/toolCallDelta' || action.type === 'chat/toolCallContentChanged';
  return next === state || quiet ? next : refreshed(next);
}

function isOpen(part: ResponsePart, id?: string): part is InputRequestPart {
  return (
    part.kind === 'inputRequest' &&
    (part.response ?? undefined) === undefined &&
    (id === undefined || part.request.id === id)
  );
}

function inRequest(state: ChatState, id: string, change: (part: InputRequestPart) => InputRequestPart): ChatState {
  const turn = state.activeTurn;
  const at = turn?.responseParts.findIndex((part) => isOpen(part, id)) ?? -1;
  const part = turn?.responseParts[at];
  if (!turn || part?.kind !== 'inputRequest') return state;
  return { ...state, activeTurn: { ...turn, responseParts: turn.responseParts.with(at, change(part)) } };
}

function inputRequested(state: ChatState, request: ChatInputRequest): ChatState {
  if (!state.activeTurn) return state;
  // Asked once more, it keeps what was answered so far.
  const again = inRequest(state, request.id, (part) => {
    const answers = request.answers ?? part.request.answers;
    return { ...without(part, 'response'), request: put(request, 'answers', answers) };
  });
  const next = again === state ? withPart(state, state.activeTurn.id, { kind: 'inputRequest', request }) : again;
  return unseen(refreshed(next));
}

function answered(request: ChatInputRequest, answers: ChatInputRequest['answers']): ChatInputRequest {
  const some = answers && Object.keys(answers).length > 0;
  return put(request, 'answers', some ? answers : undefined);
}

/** The status says what the chat is doing now, or how it ended. */
function refreshed(state: ChatState, end?: number): ChatState {
  const parts = state.activeTurn?.responseParts ?? [];
  const waits = parts.some((part) => isOpen(part) || (part.kind === 'toolCall' && blocks(part.toolCall)));
  const doing = waits ? Status.inputNeeded : state.activeTurn ? Status.inProgress : Status.idle;
  const status = (state.status & ~Status.activity) | (end ?? doing);
  return status === state.status ? state : { ...state, status };
}

function unseen(state: ChatState): ChatState {
  return { ...state, status: flagged(state.status, Status.isRead, false) };
}
