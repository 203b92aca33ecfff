/** Keeps one connection to the host alive: opens it, watches it, and opens another one when it ends. */

import { BACKOFF, type Backoff, delay } from './backoff.ts';
import type { Environment, Socket } from './environment.ts';
import { type Readable, Value } from './observable.ts';
import { type Handler, Rpc } from './rpc.ts';

export type LinkState =
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
export class Refused extends Error {}

export interface LinkUser {
  /** Introduces the client on a new connection. The link is ready when this is done. */
  handshake(rpc: Rpc): Promise<void>;
  /** Everything that is to follow the handshake. */
  ready(rpc: Rpc): void;
  notified(method: string, params: unknown): void;
  handler(method: string): Handler | undefined;
  /** The connection is gone. */
  lost(): void;
}

export interface LinkOptions {
  /** Where the host is, asked anew each time. */
  readonly url: () => string;
  readonly environment: Environment;
  readonly backoff?: Backoff;
  /** Milliseconds of silence after which the host is asked whether it is there, and that it may take to answer. */
  readonly quiet?: number;
  readonly patience?: number;
}

const QUIET = 15_000;
const PATIENCE = 10_000;

export class Link {
  readonly #options: LinkOptions;
  readonly #environment: Environment;
  readonly #user: LinkUser;
  readonly #state = new Value<LinkState>({ phase: 'idle' });
  #rpc: Rpc | undefined;
  #failures = 0;
  #stopTimer: (() => void) | undefined;
  #stopWaking: (() => void) | undefined;

  constructor(options: LinkOptions, user: LinkUser) {
    this.#options = options;
    this.#environment = options.environment;
    this.#user = user;
  }

  get state(): Readable<LinkState> {
    return this.#state;
  }

  /** The connection, if it is ready. */
  get rpc(): Rpc | undefined {
    return this.#state.value.phase === 'ready' ? this.#rpc : undefined;
  }

  start(): void {
    if (this.#state.value.phase !== 'idle') return;
    this.#stopWaking = this.#environment.onWake(() => this.wake());
    this.#connect();
  }

  stop(): void {
    this.#stopWaking?.();
    this.#stopTimer?.();
    const rpc = this.#rpc;
    this.#rpc = undefined;
    this.#state.set({ phase: 'idle' });
    rpc?.close();
    if (rpc) this.#user.lost();
  }

  /** Somebody looks, or the network is back: does now what would have been done later. */
  wake(): void {
    const { phase } = this.#state.value;
    if (phase === 'waiting' || phase === 'refused') {
      this.#failures = 0;
      this.#connect();
    } else if (phase === 'ready') {
      // A machine that slept finds connections that look alive and are not.
      this.#ask();
    }
  }

  #connect(): void {
    this.#stopTimer?.();
    this.#state.set({ phase: 'connecting', failures: this.#failures });
    let socket: Socket;
    try {
      socket = this.#environment.connect(this.#options.url());
    } catch (error) {
      return this.#failed(sentence(error));
    }
    const rpc: Rpc = new Rpc(socket, this.#environment, {
      notified: (method, params) => this.#user.notified(method, params),
      handler: (method) => this.#user.handler(method),
      closed: (reason) => this.#closed(rpc, reason),
    });
    this.#rpc = rpc;
    this.#stopTimer = this.#environment.after(this.#patience, () => rpc.giveUp());
    socket.onopen = () => {
      this.#stopTimer?.();
      this.#introduce(rpc).catch((error: unknown) => this.#notIntroduced(rpc, error));
    };
  }

  async #introduce(rpc: Rpc): Promise<void> {
    await this.#user.handshake(rpc);
    if (this.#rpc !== rpc) return;
    this.#failures = 0;
    this.#watch(rpc);
    this.#state.set({ phase: 'ready' });
    this.#user.ready(rpc);
  }

  #notIntroduced(rpc: Rpc, error: unknown): void {
    if (this.#rpc !== rpc) return;
    if (!(error instanceof Refused)) return rpc.close(1000, sentence(error));
    this.#rpc = undefined;
    this.#state.set({ phase: 'refused', reason: error.message });
    rpc.close(1000);
    this.#user.lost();
  }

  #closed(rpc: Rpc, reason: string): void {
    if (this.#rpc !== rpc) return;
    this.#rpc = undefined;
    // Who listens to the user's word must not find a connection that is gone.
    this.#failed(reason);
    this.#user.lost();
  }

  #failed(reason: string): void {
    this.#stopTimer?.();
    this.#failures += 1;
    const backoff = this.#options.backoff ?? BACKOFF;
    // A browser that knows of no network may be wrong, and a host on this machine needs none: it is tried, but rarely.
    const offline = !this.#environment.isOnline();
    const wait = offline ? backoff.most : delay(this.#failures, this.#environment.random(), backoff);
    const until = this.#environment.now() + wait;
    this.#stopTimer = this.#environment.after(wait, () => this.#connect());
    this.#state.set({ phase: 'waiting', failures: this.#failures, until, reason, offline });
  }

  /** Looks after a while whether something was heard. */
  #watch(rpc: Rpc): void {
    const quiet = this.#options.quiet ?? QUIET;
    const rest = rpc.heard + quiet - this.#environment.now();
    this.#stopTimer?.();
    this.#stopTimer = this.#environment.after(Math.max(rest, 1), () => {
      if (rpc.heard + quiet > this.#environment.now()) this.#watch(rpc);
      else this.#ask();
    });
  }

  #ask(): void {
    const rpc = this.#rpc;
    if (!rpc) return;
    this.#stopTimer?.();
    rpc.request('ping', { channel: 'ahp-root://' }, { timeout: this.#patience }).then(
      () => this.#rpc === rpc && this.#watch(rpc),
      () => this.#rpc === rpc && rpc.giveUp(),
    );
  }

  get #patience(): number {
    return this.#options.patience ?? PATIENCE;
  }
}

function sentence(error: unknown): string {
  return error instanceof Error ? error.message : 'The connection could not be made.';
}
