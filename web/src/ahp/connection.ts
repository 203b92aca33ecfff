/** Keeps one connection to the host alive: opens it, watches it, and opens another one when it ends. */

import { type Backoff, backoffDelay, DEFAULT_BACKOFF } from './backoff.ts';
import type { Environment, Socket } from './environment.ts';
import { type Readable, WritableValue } from './observable.ts';
import { type RequestHandler, RpcConnection } from './rpc.ts';

export type ConnectionState =
  /** Not started, or stopped. */
  | { readonly phase: 'idle' }
  | { readonly phase: 'connecting'; readonly failures: number }
  | { readonly phase: 'ready' }
  /** The host is away; it is tried again at a time (in milliseconds), or earlier when the page wakes up. */
  | {
      readonly phase: 'waiting';
      readonly failures: number;
      readonly until: number;
      readonly reason: string;
      readonly offline: boolean;
    }
  /** Trying again would not help. */
  | { readonly phase: 'refused'; readonly reason: string };

/** Thrown by a handshake that would fail each time. */
export class HandshakeRefusedError extends Error {}

export interface ConnectionHandlers {
  /** Introduces the client on a new connection. The link is ready when this is done. */
  handshake(rpc: RpcConnection): Promise<void>;
  /** Everything that is to follow the handshake. */
  onReady(rpc: RpcConnection): void;
  onNotification(method: string, params: unknown): void;
  findHandler(method: string): RequestHandler | undefined;
  /** The connection is gone. */
  onDisconnected(): void;
}

export interface ConnectionOptions {
  /** Where the host is, asked anew each time. */
  readonly url: () => string;
  readonly environment: Environment;
  readonly backoff?: Backoff;
  /** Milliseconds of silence after which the host is asked whether it is there, and that it may take to answer. */
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

  /** The connection, if it is ready. */
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

  /** Somebody looks, or the network is back: does now what would have been done later. */
  wake(): void {
    const { phase } = this.#state.value;
    if (phase === 'waiting' || phase === 'refused') {
      this.#failures = 0;
      this.#connect();
    } else if (phase === 'ready') {
      // A machine that slept finds connections that look alive and are not.
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
    // Who listens to the user's word must not find a connection that is gone.
    this.#scheduleRetry(reason);
    this.#handlers.onDisconnected();
  }

  #scheduleRetry(reason: string): void {
    this.#stopTimer?.();
    this.#failures += 1;
    const backoff = this.#options.backoff ?? DEFAULT_BACKOFF;
    // A browser that knows of no network may be wrong, and a host on this machine needs none: it is tried, but rarely.
    const offline = !this.#environment.isOnline();
    const delayMs = offline ? backoff.maxDelayMs : backoffDelay(this.#failures, this.#environment.random(), backoff);
    const until = this.#environment.now() + delayMs;
    this.#stopTimer = this.#environment.after(delayMs, () => this.#connect());
    this.#state.set({ phase: 'waiting', failures: this.#failures, until, reason, offline });
  }

  /** Looks after a while whether something was heard. */
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
