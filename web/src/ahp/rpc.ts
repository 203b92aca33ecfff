/** JSON-RPC over one WebSocket: one message per text frame, requests both ways. Knows nothing of sessions or numbers. */

import type { Environment, Socket } from './environment.ts';
import { DisconnectedError, RpcError, TimeoutError } from './errors.ts';
import { Code } from './types/index.ts';

/** Carries out a request of the host. */
export type Handler = (params: Record<string, unknown>) => unknown;

export interface Peer {
  /** A notification, in the order of arrival. */
  notified(method: string, params: unknown): void;
  /** Who carries out a request of the host; nobody means that it is answered with "unknown method". */
  handler(method: string): Handler | undefined;
  /** The connection has ended; said once. */
  closed(reason: string): void;
}

export interface Asking<R, T> {
  /** Milliseconds. */
  readonly timeout: number;
  /**
   * Called with the answer before anything that follows it is looked at. A promise's callbacks run later, when the
   * envelopes behind the answer may already have come.
   */
  readonly receive?: (result: R) => T;
  readonly signal?: AbortSignal;
}

interface Open {
  receive(result: unknown): void;
  fail(error: Error): void;
}

/** Close codes of ours: a peer that does not speak the protocol, and one that does not speak at all. */
const MALFORMED = 4002;
const SILENT = 4003;

/** A socket's `readyState`. */
const OPEN = 1;

export class Rpc {
  readonly #socket: Socket;
  readonly #environment: Environment;
  readonly #peer: Peer;
  readonly #open = new Map<number, Open>();
  #next = 1;
  #closed = false;
  /** When something was last heard. */
  heard: number;

  constructor(socket: Socket, environment: Environment, peer: Peer) {
    this.#socket = socket;
    this.#environment = environment;
    this.#peer = peer;
    this.heard = environment.now();
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => this.#ended(event.reason || 'The connection to the host ended.');
    // A close follows, and says as much as a page may know.
    socket.onerror = () => undefined;
  }

  request<R, T = R>(method: string, params: object, asking: Asking<R, T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) return reject(new DisconnectedError('There is no connection to the host.'));
      if (asking.signal?.aborted) return reject(asking.signal.reason);
      const id = this.#next++;
      const settle = () => {
        stop();
        asking.signal?.removeEventListener('abort', abort);
        this.#open.delete(id);
      };
      const fail = (error: unknown) => {
        settle();
        reject(error);
      };
      const abort = () => fail(asking.signal?.reason);
      const stop = this.#environment.after(asking.timeout, () => fail(new TimeoutError(method, asking.timeout)));
      asking.signal?.addEventListener('abort', abort);
      const receive = (result: unknown) => {
        settle();
        try {
          resolve(asking.receive ? asking.receive(result as R) : (result as T));
        } catch (error) {
          reject(error);
        }
      };
      this.#open.set(id, { receive, fail });
      this.#send({ jsonrpc: '2.0', id, method, params });
    });
  }

  notify(method: string, params: object): void {
    if (!this.#closed) this.#send({ jsonrpc: '2.0', method, params });
  }

  /** Ends the connection; the peer is told at once, whatever the network does. */
  close(code = 1000, reason = ''): void {
    // The reason is for people here; a close frame has little room.
    this.#socket.close(code);
    this.#ended(reason || 'The connection was closed.');
  }

  /** Gives the connection up since nothing is heard. */
  giveUp(): void {
    this.close(SILENT, 'The host does not answer.');
  }

  #send(message: object): void {
    // On one that is ending it would be lost all the same, and browsers complain; that it has ended is said soon.
    if (this.#socket.readyState === OPEN) this.#socket.send(JSON.stringify(message));
  }

  #received(data: unknown): void {
    if (this.#closed) return;
    this.heard = this.#environment.now();
    const message = typeof data === 'string' ? parsed(data) : undefined;
    if (!message) return this.close(MALFORMED, 'The host sent something that is no message.');
    const { id, method, params, result, error } = message;
    if (typeof method === 'string') {
      if (id === undefined || id === null) this.#notified(method, params);
      else void this.#asked(id, method, params);
    } else if (typeof id === 'number') {
      const open = this.#open.get(id);
      // An answer that nobody waits for any more is late, not wrong.
      if (error) open?.fail(rpcError(error));
      else open?.receive(result);
    }
  }

  #notified(method: string, params: unknown): void {
    try {
      this.#peer.notified(method, params);
    } catch {
      this.close(MALFORMED, 'The host sent something that is no message.');
    }
  }

  async #asked(id: unknown, method: string, params: unknown): Promise<void> {
    const answer = await this.#answer(method, params);
    if (!this.#closed) this.#send({ jsonrpc: '2.0', id, ...answer });
  }

  async #answer(method: string, params: unknown): Promise<object> {
    const handler = this.#peer.handler(method);
    if (!handler) return { error: { code: Code.unknownMethod, message: `This client does not offer ${method}.` } };
    try {
      return { result: (await handler((params ?? {}) as Record<string, unknown>)) ?? null };
    } catch (error) {
      const code = error instanceof RpcError ? error.code : Code.internal;
      return { error: { code, message: error instanceof Error ? error.message : 'The client failed.' } };
    }
  }

  #ended(reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const open of [...this.#open.values()]) open.fail(new DisconnectedError(reason));
    this.#peer.closed(reason);
  }
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const message: unknown = JSON.parse(text);
    const isObject = typeof message === 'object' && message !== null && !Array.isArray(message);
    return isObject ? (message as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function rpcError(error: unknown): RpcError {
  const { code, message, data } = error as { code?: unknown; message?: unknown; data?: unknown };
  const number = typeof code === 'number' ? code : Code.internal;
  return new RpcError(number, typeof message === 'string' ? message : 'The host failed.', data);
}
