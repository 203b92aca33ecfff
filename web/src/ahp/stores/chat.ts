/** One chat, held open: what people do in it. */

import type { View } from '../channel.ts';
import type { Client, Held } from '../client.ts';
import { newId } from '../environment.ts';
import type { Readable } from '../observable.ts';
import type { Action, Answer, ChatState, Envelope, InputResponse, Message, Params, Uri } from '../types/index.ts';

/** A message of a person. */
export type Words = Omit<Message, 'origin'>;

/** An answer to a call that waits for a confirmation. */
export type Verdict = Omit<Extract<Action, { type: 'chat/toolCallConfirmed' }>, 'type' | 'turnId' | 'toolCallId'>;

/** How many turns a chat is opened with. */
const TURNS = 50;

export class Chat {
  readonly uri: Uri;
  readonly view: Readable<View<ChatState>>;
  readonly #client: Client;
  readonly #held: Held<'chat'>;
  #older: Promise<void> | undefined;

  constructor(client: Client, uri: Uri, turns = TURNS) {
    this.#client = client;
    this.#held = client.open('chat', uri, { turns });
    this.uri = uri;
    this.view = this.#held.view;
  }

  close(): void {
    this.#held.close();
  }

  dispatch(action: Action): Promise<Envelope> {
    return this.#held.dispatch(action);
  }

  /** Reads older turns, if there are some. Asked twice, it reads once. */
  loadOlder(): Promise<void> {
    const cursor = this.view.value.state?.turnsNextCursor;
    if (cursor === undefined) return Promise.resolve();
    // The turns come as an action, before the answer.
    const params: Params<'fetchTurns'> = { channel: this.uri, cursor };
    this.#older ??= this.#client
      .request('fetchTurns', params)
      .then(() => undefined)
      .finally(() => {
        this.#older = undefined;
      });
    return this.#older;
  }

  /** Starts a turn; the host refuses it while another one runs. */
  send(words: Words): Promise<Envelope> {
    const startedAt = new Date(this.#client.environment.now()).toISOString();
    return this.dispatch({ type: 'chat/turnStarted', turnId: newId(), startedAt, message: byUser(words) });
  }

  /** Lets a message wait for its turn. With an id that waits already, it is changed. */
  queue(words: Words, id = newId()): Promise<Envelope> {
    return this.dispatch({ type: 'chat/pendingMessageSet', kind: 'queued', id, message: byUser(words) });
  }

  /** Tells the running turn something. */
  steer(words: Words, id = newId()): Promise<Envelope> {
    return this.dispatch({ type: 'chat/pendingMessageSet', kind: 'steering', id, message: byUser(words) });
  }

  takeBack(kind: 'queued' | 'steering', id: string): Promise<Envelope> {
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

  confirm(turnId: string, toolCallId: string, verdict: Verdict): Promise<Envelope> {
    const confirmed = verdict.approved ? { confirmed: 'user-action' as const } : {};
    return this.dispatch({ type: 'chat/toolCallConfirmed', turnId, toolCallId, ...confirmed, ...verdict });
  }

  /** Notes an answer, for everybody to see, before it counts. */
  answer(requestId: string, questionId: string, answer: Answer | undefined): Promise<Envelope> {
    return this.dispatch({ type: 'chat/inputAnswerChanged', requestId, questionId, ...(answer && { answer }) });
  }

  complete(requestId: string, response: InputResponse, answers?: Readonly<Record<string, Answer>>): Promise<Envelope> {
    return this.dispatch({ type: 'chat/inputCompleted', requestId, response, ...(answers && { answers }) });
  }

  /** Keeps what somebody has typed, for the other clients too. */
  draft(words: Words | undefined): Promise<Envelope> {
    return this.dispatch({ type: 'chat/draftChanged', ...(words && { draft: byUser(words) }) });
  }

  setRead(isRead: boolean): Promise<Envelope> {
    return this.dispatch({ type: 'chat/isReadChanged', isRead });
  }
}

function byUser(words: Words): Message {
  return { ...words, origin: { kind: 'user' } };
}
