/**
 * JSON-RPC over one WebSocket: one message per text frame, requests in both directions. Knows nothing of sessions or
 * sequence numbers.
 */

import type { Environment, Socket } from './environment.ts';
import { DisconnectedError, RpcError, TimeoutError } from './errors.ts';
import { ErrorCode } from './types/index.ts';

/** Handles a request of the host. */
export type RequestHandler = (params: Record<string, unknown>) => unknown;

export interface RpcHandlers {
  /** Called for each notification in order of arrival. */
  onNotification(method: string, params: unknown): void;
  /** Finds the handler of a request; undefined answers "unknown method". */
  findHandler(method: string): RequestHandler | undefined;
  /** The connection closed; called once. */
  onClosed(reason: string): void;
}

export interface RpcRequestOptions<R, T> {
  /** Milliseconds. */
  readonly timeoutMs: number;
  /**
   * Runs with the result before the next frame is processed. Promise callbacks run later, when envelopes after the
   * response may have arrived.
   */
  readonly onResult?: (result: R) => T;
  readonly signal?: AbortSignal;
}

interface PendingRequest {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** Own close codes: malformed message, unresponsive host. */
const CLOSE_MALFORMED = 4002;
const CLOSE_UNRESPONSIVE = 4003;

/** A socket's `readyState`. */
const SOCKET_OPEN = 1;

export class RpcConnection {
  readonly #socket: Socket;
  readonly #environment: Environment;
  readonly #handlers: RpcHandlers;
  readonly #pendingRequests = new Map<number, PendingRequest>();
  #nextId = 1;
  #closed = false;
  /** Time of the last received frame. */
  lastReceivedAt: number;

  constructor(socket: Socket, environment: Environment, handlers: RpcHandlers) {
    this.#socket = socket;
    this.#environment = environment;
    this.#handlers = handlers;
    this.lastReceivedAt = environment.now();
    socket.onmessage = (event) => this.#onMessage(event.data);
    socket.onclose = (event) => this.#onClosed(event.reason || 'The connection to the host closed.');
    // A close event follows with everything that a page may know.
    socket.onerror = () => undefined;
  }

  request<R, T = R>(method: string, params: object, options: RpcRequestOptions<R, T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) return reject(new DisconnectedError('Not connected to the host.'));
      if (options.signal?.aborted) return reject(options.signal.reason);
      const id = this.#nextId++;
      const settle = () => {
        stop();
        options.signal?.removeEventListener('abort', abort);
        this.#pendingRequests.delete(id);
      };
      const fail = (error: unknown) => {
        settle();
        reject(error);
      };
      const abort = () => fail(options.signal?.reason);
      const stop = this.#environment.after(options.timeoutMs, () => fail(new TimeoutError(method, options.timeoutMs)));
      options.signal?.addEventListener('abort', abort);
      const receive = (result: unknown) => {
        settle();
        try {
          resolve(options.onResult ? options.onResult(result as R) : (result as T));
        } catch (error) {
          reject(error);
        }
      };
      this.#pendingRequests.set(id, { resolve: receive, reject: fail });
      this.#send({ jsonrpc: '2.0', id, method, params });
    });
  }

  notify(method: string, params: object): void {
    if (!this.#closed) this.#send({ jsonrpc: '2.0', method, params });
  }

  /** Closes the connection and notifies the handlers at once. */
  close(code = 1000, reason = ''): void {
    // The reason is for the user; a close frame has little room.
    this.#socket.close(code);
    this.#onClosed(reason || 'The connection was closed.');
  }

  /** Closes the connection because the host does not respond. */
  closeUnresponsive(): void {
    this.close(CLOSE_UNRESPONSIVE, 'The host is not responding.');
  }

  #send(message: object): void {
    // Sending on a closing socket logs a browser warning; the close event follows.
    if (this.#socket.readyState === SOCKET_OPEN) this.#socket.send(JSON.stringify(message));
  }

  #onMessage(data: unknown): void {
    if (this.#closed) return;
    this.lastReceivedAt = this.#environment.now();
    const message = typeof data === 'string' ? parseMessage(data) : undefined;
    if (!message) return this.close(CLOSE_MALFORMED, 'The host sent an invalid message.');
    const { id, method, params, result, error } = message;
    if (typeof method === 'string') {
      if (id === undefined || id === null) this.#onNotification(method, params);
      else void this.#onRequest(id, method, params);
    } else if (typeof id === 'number') {
      const open = this.#pendingRequests.get(id);
      // A response to a request that timed out is ignored.
      if (error) open?.reject(toRpcError(error));
      else open?.resolve(result);
    }
  }

  #onNotification(method: string, params: unknown): void {
    try {
      this.#handlers.onNotification(method, params);
    } catch {
      this.close(CLOSE_MALFORMED, 'The host sent an invalid message.');
    }
  }

  async #onRequest(id: unknown, method: string, params: unknown): Promise<void> {
    const answer = await this.#runHandler(method, params);
    if (!this.#closed) this.#send({ jsonrpc: '2.0', id, ...answer });
  }

  async #runHandler(method: string, params: unknown): Promise<object> {
    const handler = this.#handlers.findHandler(method);
    if (!handler) return { error: { code: ErrorCode.unknownMethod, message: `Unknown method: ${method}.` } };
    try {
      return { result: (await handler((params ?? {}) as Record<string, unknown>)) ?? null };
    } catch (error) {
      const code = error instanceof RpcError ? error.code : ErrorCode.internal;
      return {
        error: { code, message: error instanceof Error ? error.message : 'The client failed to handle the request.' },
      };
    }
  }

  #onClosed(reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const open of [...this.#pendingRequests.values()]) open.reject(new DisconnectedError(reason));
    this.#handlers.onClosed(reason);
  }
}

function parseMessage(text: string): Record<string, unknown> | undefined {
  try {
    const message: unknown = JSON.parse(text);
    const isObject = typeof message === 'object' && message !== null && !Array.isArray(message);
    return isObject ? (message as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function toRpcError(error: unknown): RpcError {
  const { code, message, data } = error as { code?: unknown; message?: unknown; data?: unknown };
  const number = typeof code === 'number' ? code : ErrorCode.internal;
  return new RpcError(number, typeof message === 'string' ? message : 'The host reported an unknown error.', data);
}
