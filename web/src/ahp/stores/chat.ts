/** One open chat: its view and the actions of a user. */

import type { ChannelView } from '../channel.ts';
import type { ChannelHandle, Client } from '../client.ts';
import { newId } from '../environment.ts';
import type { Readable } from '../observable.ts';
import type {
  Action,
  Answer,
  ChatState,
  CommandParams,
  Envelope,
  InputResponse,
  Message,
  Uri,
} from '../types/index.ts';

/** A message of the user, without its origin. */
export type UserMessage = Omit<Message, 'origin'>;

/** The answer to a tool confirmation. */
export type ToolDecision = Omit<Extract<Action, { type: 'chat/toolCallConfirmed' }>, 'type' | 'turnId' | 'toolCallId'>;

/** Number of turns loaded when a chat opens. */
const INITIAL_TURNS = 50;

export class Chat {
  readonly uri: Uri;
  readonly view: Readable<ChannelView<ChatState>>;
  readonly #client: Client;
  readonly #handle: ChannelHandle<'chat'>;
  #loadingOlder: Promise<void> | undefined;

  constructor(client: Client, uri: Uri, turns = INITIAL_TURNS) {
    this.#client = client;
    this.#handle = client.open('chat', uri, { turns });
    this.uri = uri;
    this.view = this.#handle.view;
  }

  close(): void {
    this.#handle.close();
  }

  dispatch(action: Action): Promise<Envelope> {
    return this.#handle.dispatch(action);
  }

  /** Loads older turns, if any. Concurrent calls share one request. */
  loadOlder(): Promise<void> {
    const cursor = this.view.value.state?.turnsNextCursor;
    if (cursor === undefined) return Promise.resolve();
    // The turns arrive as an action before the response.
    const params: CommandParams<'fetchTurns'> = { channel: this.uri, cursor };
    this.#loadingOlder ??= this.#client
      .request('fetchTurns', params)
      .then(() => undefined)
      .finally(() => {
        this.#loadingOlder = undefined;
      });
    return this.#loadingOlder;
  }

  /** Starts a turn; the host rejects it while another one runs. */
  send(message: UserMessage): Promise<Envelope> {
    const startedAt = new Date(this.#client.environment.now()).toISOString();
    return this.dispatch({ type: 'chat/turnStarted', turnId: newId(), startedAt, message: withUserOrigin(message) });
  }

  /** Queues a message, or replaces the queued message with this id. */
  queue(message: UserMessage, id = newId()): Promise<Envelope> {
    return this.dispatch({ type: 'chat/pendingMessageSet', kind: 'queued', id, message: withUserOrigin(message) });
  }

  /** Sends a steering message to the running turn. */
  steer(message: UserMessage, id = newId()): Promise<Envelope> {
    return this.dispatch({ type: 'chat/pendingMessageSet', kind: 'steering', id, message: withUserOrigin(message) });
  }

  removePendingMessage(kind: 'queued' | 'steering', id: string): Promise<Envelope> {
    return this.dispatch({ type: 'chat/pendingMessageRemoved', kind, id });
  }

  reorder(order: readonly string[]): Promise<Envelope> {
    return this.dispatch({ type: 'chat/queuedMessagesReordered', order });
  }

  /** Stops the running turn, if there is one. */
  async cancel(): Promise<Envelope | undefined> {
    const turn = this.view.value.state?.activeTurn;
    if (!turn) return undefined;
    const duration = Math.max(0, Math.round(this.#client.environment.now() - Date.parse(turn.startedAt)));
    return this.dispatch({ type: 'chat/turnCancelled', turnId: turn.id, duration });
  }

  resume(turnId: string): Promise<Envelope> {
    return this.dispatch({ type: 'chat/turnResume', turnId });
  }

  confirm(turnId: string, toolCallId: string, decision: ToolDecision): Promise<Envelope> {
    const confirmed = decision.approved ? { confirmed: 'user-action' as const } : {};
    return this.dispatch({ type: 'chat/toolCallConfirmed', turnId, toolCallId, ...confirmed, ...decision });
  }

  /** Saves an answer draft that all clients see. */
  setAnswerDraft(requestId: string, questionId: string, answer: Answer | undefined): Promise<Envelope> {
    return this.dispatch({ type: 'chat/inputAnswerChanged', requestId, questionId, ...(answer && { answer }) });
  }

  completeInput(
    requestId: string,
    response: InputResponse,
    answers?: Readonly<Record<string, Answer>>,
  ): Promise<Envelope> {
    return this.dispatch({ type: 'chat/inputCompleted', requestId, response, ...(answers && { answers }) });
  }

  /** Saves the draft for all clients. */
  setDraft(message: UserMessage | undefined): Promise<Envelope> {
    return this.dispatch({ type: 'chat/draftChanged', ...(message && { draft: withUserOrigin(message) }) });
  }

  setRead(isRead: boolean): Promise<Envelope> {
    return this.dispatch({ type: 'chat/isReadChanged', isRead });
  }
}

function withUserOrigin(message: UserMessage): Message {
  return { ...message, origin: { kind: 'user' } };
}
