/** A minimal host that implements sequence numbers, echoes and replays: a log and a reducer. */

import { reduceSession } from '../../src/ahp/reducers/index.ts';
import type { Action, Envelope, RootState, SessionState } from '../../src/ahp/types/index.ts';
import { FakeSocket } from './fake-socket.ts';

export const SESSION = 'test:/session';

const ROOT_STATE: RootState = { agents: [] };

export class ModelHost {
  state: SessionState = { provider: 'p', title: '', status: 1, lifecycle: 'ready', activeClients: [], chats: [] };
  /** Everything published on the session's channel. */
  readonly log: Envelope[] = [];
  /** How often each action was applied. */
  readonly effects = new Map<string, number>();
  readonly #answers = new Map<string, Envelope>();
  readonly #clients = new Set<string>();
  #cable: FakeSocket | undefined;
  #client = '';
  #subscribed = false;
  /** Subscriptions answered after the next frame, as if the session loaded from disk. */
  #loading: number[] = [];
  /** The host's next decision. */
  replays = true;
  rejectsActions = false;
  forgetsClients = false;

  connect(): FakeSocket {
    this.#cable = new FakeSocket();
    this.#subscribed = false;
    this.#loading = [];
    const cable = this.#cable;
    queueMicrotask(() => cable.onopen?.(undefined as never));
    return cable;
  }

  get cable(): FakeSocket | undefined {
    return this.#cable;
  }

  /** The host reads the next frame. */
  read(): boolean {
    const frame = this.#cable?.toHost.shift();
    const { id, method, params } = JSON.parse(frame ?? '{}');
    const loaded = this.#loading.shift();
    if (method === 'subscribe') this.#loading.push(id);
    else if (method === 'dispatchAction') this.#dispatched(params);
    else if (method === 'unsubscribe') this.#subscribed = false;
    else if (method) this.#reply(id, this.#answer(method, params));
    if (loaded !== undefined) {
      this.#subscribed = true;
      this.#reply(loaded, { result: { snapshot: this.#snapshot } });
    }
    return frame !== undefined || loaded !== undefined;
  }

  #reply(id: number, answer: object): void {
    this.#cable?.toClient.push(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
  }

  /** Publishes an action that the client did not dispatch. */
  applyHostAction(action: Action): void {
    this.#publish({ channel: SESSION, action, serverSeq: this.#seq });
  }

  get #seq(): number {
    return this.log.length + 1;
  }

  get #snapshot() {
    return { resource: SESSION, state: this.state, fromSeq: this.log.length };
  }

  #answer(method: string, params: Record<string, never>): object {
    switch (method) {
      case 'initialize':
        this.#client = params.clientId ?? '';
        this.#clients.add(this.#client);
        return {
          result: {
            protocolVersion: '1.0.0',
            serverSeq: this.log.length,
            snapshots: [{ resource: 'ahp-root://', state: ROOT_STATE, fromSeq: this.log.length }],
          },
        };
      case 'reconnect':
        return this.#reconnected(params);
      default:
        return { result: null };
    }
  }

  #reconnected(params: Record<string, unknown>): object {
    if (this.forgetsClients) {
      this.#clients.clear();
      this.#answers.clear();
      this.forgetsClients = false;
    }
    if (!this.#clients.has(params.clientId as string)) return { error: { code: -32008, message: 'unknown client' } };
    this.#client = params.clientId as string;
    this.#subscribed = (params.subscriptions as string[]).includes(SESSION);
    if (this.replays) {
      const missed = this.log.filter(({ serverSeq }) => serverSeq > (params.lastSeenServerSeq as number));
      return { result: { type: 'replay', actions: this.#subscribed ? missed : [], missing: [] } };
    }
    const root = { resource: 'ahp-root://', state: ROOT_STATE, fromSeq: this.log.length };
    return { result: { type: 'snapshot', snapshots: this.#subscribed ? [root, this.#snapshot] : [root] } };
  }

  #dispatched({ clientSeq, action }: { clientSeq: number; action: Action }): void {
    const key = `${this.#client} ${clientSeq}`;
    const answered = this.#answers.get(key);
    if (answered) {
      this.#send(answered);
      return;
    }
    const origin = { clientId: this.#client, clientSeq };
    const envelope: Envelope = { channel: SESSION, action, serverSeq: this.#seq, origin };
    const answer = this.rejectsActions ? { ...envelope, rejectionReason: 'no' } : envelope;
    this.#answers.set(key, answer);
    if (!this.rejectsActions) this.effects.set(key, (this.effects.get(key) ?? 0) + 1);
    this.#publish(answer);
  }

  #publish(envelope: Envelope): void {
    this.log.push(envelope);
    if (envelope.rejectionReason === undefined) this.state = reduceSession(this.state, envelope.action);
    if (this.#subscribed) this.#send(envelope);
  }

  #send(envelope: Envelope): void {
    if (!this.#cable?.closed)
      this.#cable?.toClient.push(JSON.stringify({ jsonrpc: '2.0', method: 'action', params: envelope }));
  }
}
