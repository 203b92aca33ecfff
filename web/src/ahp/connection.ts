/**
 * Maintains one connection to the host: connects, pings, and reconnects with backoff. Does not know channels or actions;
 * `ConnectionHandlers` runs the handshake.
 */

import { type Backoff, backoffDelay, DEFAULT_BACKOFF } from './backoff.ts';
import type { Environment, Socket } from './environment.ts';
import { type Readable, WritableValue } from './observable.ts';
import { type RequestHandler, RpcConnection } from './rpc.ts';

export type ConnectionState =
  /** Not started, or stopped. */
  | { readonly phase: 'idle' }
  | { readonly phase: 'connecting'; readonly failures: number }
  | { readonly phase: 'ready' }
  /** Disconnected; the next attempt is at `until` (milliseconds), or earlier when the page wakes up. */
  | {
      readonly phase: 'waiting';
      readonly failures: number;
      readonly until: number;
      readonly reason: string;
      readonly offline: boolean;
    }
  /** The host refused the client; retrying does not help. */
  | { readonly phase: 'refused'; readonly reason: string };

/** Thrown by a handshake that fails permanently. */
export class HandshakeRefusedError extends Error {}

export interface ConnectionHandlers {
  /** Runs the handshake on a new connection. */
  handshake(rpc: RpcConnection): Promise<void>;
  /** Called after the handshake. */
  onReady(rpc: RpcConnection): void;
  onNotification(method: string, params: unknown): void;
  findHandler(method: string): RequestHandler | undefined;
  /** The connection closed. */
  onDisconnected(): void;
}

export interface ConnectionOptions {
  /** URL of the host, read for each attempt. */
  readonly url: () => string;
  readonly environment: Environment;
  readonly backoff?: Backoff;
  /** Idle time before a ping, and its timeout. */
  readonly pingAfterMs?: number;
  readonly pingTimeoutMs?: number;
}

const DEFAULT_PING_AFTER_MS = 15_000;
const DEFAULT_PING_TIMEOUT_MS = 10_000;

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #environment: Environment;
  readonly #handlers: ConnectionHandlers;
  readonly #state = new WritableValue<ConnectionState>({ phase: 'idle' });
  #rpc: RpcConnection | undefined;
  #failures = 0;
  #stopTimer: (() => void) | undefined;
  #stopWakeListener: (() => void) | undefined;

  constructor(options: ConnectionOptions, handlers: ConnectionHandlers) {
    this.#options = options;
    this.#environment = options.environment;
    this.#handlers = handlers;
  }

  get state(): Readable<ConnectionState> {
    return this.#state;
  }

  /** The RPC connection, while it is ready. */
  get rpc(): RpcConnection | undefined {
    return this.#state.value.phase === 'ready' ? this.#rpc : undefined;
  }

  start(): void {
    if (this.#state.value.phase !== 'idle') return;
    this.#stopWakeListener = this.#environment.onWake(() => this.wake());
    this.#connect();
  }

  stop(): void {
    this.#stopWakeListener?.();
    this.#stopTimer?.();
    const rpc = this.#rpc;
    this.#rpc = undefined;
    this.#state.set({ phase: 'idle' });
    rpc?.close();
    if (rpc) this.#handlers.onDisconnected();
  }

  /** Retries or pings now, because the page became visible or the network returned. */
  wake(): void {
    const { phase } = this.#state.value;
    if (phase === 'waiting' || phase === 'refused') {
      this.#failures = 0;
      this.#connect();
    } else if (phase === 'ready') {
      // After sleep a socket can look open although the connection is lost.
      this.#ping();
    }
  }

  #connect(): void {
    this.#stopTimer?.();
    this.#state.set({ phase: 'connecting', failures: this.#failures });
    let socket: Socket;
    try {
      socket = this.#environment.connect(this.#options.url());
    } catch (error) {
      return this.#scheduleRetry(describeError(error));
    }
    const rpc: RpcConnection = new RpcConnection(socket, this.#environment, {
      onNotification: (method, params) => this.#handlers.onNotification(method, params),
      findHandler: (method) => this.#handlers.findHandler(method),
      onClosed: (reason) => this.#onClosed(rpc, reason),
    });
    this.#rpc = rpc;
    this.#stopTimer = this.#environment.after(this.#pingTimeoutMs, () => rpc.closeUnresponsive());
    socket.onopen = () => {
      this.#stopTimer?.();
      this.#runHandshake(rpc).catch((error: unknown) => this.#onHandshakeFailed(rpc, error));
    };
  }

  async #runHandshake(rpc: RpcConnection): Promise<void> {
    await this.#handlers.handshake(rpc);
    if (this.#rpc !== rpc) return;
    this.#failures = 0;
    this.#schedulePing(rpc);
    this.#state.set({ phase: 'ready' });
    this.#handlers.onReady(rpc);
  }

  #onHandshakeFailed(rpc: RpcConnection, error: unknown): void {
    if (this.#rpc !== rpc) return;
    if (!(error instanceof HandshakeRefusedError)) return rpc.close(1000, describeError(error));
    this.#rpc = undefined;
    this.#state.set({ phase: 'refused', reason: error.message });
    rpc.close(1000);
    this.#handlers.onDisconnected();
  }

  #onClosed(rpc: RpcConnection, reason: string): void {
    if (this.#rpc !== rpc) return;
    this.#rpc = undefined;
    // The state changes first, so that handlers do not see a closed connection.
    this.#scheduleRetry(reason);
    this.#handlers.onDisconnected();
  }

  #scheduleRetry(reason: string): void {
    this.#stopTimer?.();
    this.#failures += 1;
    const backoff = this.#options.backoff ?? DEFAULT_BACKOFF;
    // `navigator.onLine` can be wrong, and a local host needs no network, so the client retries at the maximum delay.
    const offline = !this.#environment.isOnline();
    const delayMs = offline ? backoff.maxDelayMs : backoffDelay(this.#failures, this.#environment.random(), backoff);
    const until = this.#environment.now() + delayMs;
    this.#stopTimer = this.#environment.after(delayMs, () => this.#connect());
    this.#state.set({ phase: 'waiting', failures: this.#failures, until, reason, offline });
  }

  /** Pings after the idle time. */
  #schedulePing(rpc: RpcConnection): void {
    const pingAfterMs = this.#options.pingAfterMs ?? DEFAULT_PING_AFTER_MS;
    const remainingMs = rpc.lastReceivedAt + pingAfterMs - this.#environment.now();
    this.#stopTimer?.();
    this.#stopTimer = this.#environment.after(Math.max(remainingMs, 1), () => {
      if (rpc.lastReceivedAt + pingAfterMs > this.#environment.now()) this.#schedulePing(rpc);
      else this.#ping();
    });
  }

  #ping(): void {
    const rpc = this.#rpc;
    if (!rpc) return;
    this.#stopTimer?.();
    rpc.request('ping', { channel: 'ahp-root://' }, { timeoutMs: this.#pingTimeoutMs }).then(
      () => this.#rpc === rpc && this.#schedulePing(rpc),
      () => this.#rpc === rpc && rpc.closeUnresponsive(),
    );
  }

  get #pingTimeoutMs(): number {
    return this.#options.pingTimeoutMs ?? DEFAULT_PING_TIMEOUT_MS;
  }
}

function describeError(error: unknown): string {
  return error instanceof Error ? error.message : 'Could not connect to the host.';
}
