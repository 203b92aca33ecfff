/** A client of the Agent Host Protocol: one logical client over as many connections as it takes. */

import { type Backoff, delay } from './backoff.ts';
import { Channel, type Extent, type OwnWish, type View } from './channel.ts';
import { Link, type LinkState, Refused } from './connection.ts';
import { browser, type Environment, newId } from './environment.ts';
import { DisconnectedError, LostError, RejectedError, RpcError } from './errors.ts';
import { Batch, Listeners, type Readable, Value } from './observable.ts';
import type { Handler, Rpc } from './rpc.ts';
import {
  type Action,
  Code,
  type Envelope,
  type Implementation,
  type InitializeResult,
  type Kind,
  type Method,
  type Notifications,
  type Params,
  type ReconnectResult,
  type Result,
  ROOT,
  type RootState,
  type Snapshot,
  type States,
  type Uri,
} from './types/index.ts';

export interface ClientOptions {
  /** Where the host is; asked anew for each connection, since a token may have changed. */
  readonly url: () => string;
  /**
   * Who this is, for the host. It must be new whenever the page is: the host answers a number that a client has used
   * before with what it answered then.
   */
  readonly clientId?: string;
  readonly clientInfo?: Implementation;
  readonly environment?: Environment;
  readonly backoff?: Backoff;
  /** Milliseconds that the host may take to answer. */
  readonly timeout?: number;
  /** Milliseconds that a channel is kept which nobody holds any more: people go back and forth. */
  readonly linger?: number;
  /** Milliseconds of silence after which the host is asked whether it is there, and that it may take to say so. */
  readonly quiet?: number;
  readonly patience?: number;
}

export interface RequestOptions {
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

/** A channel that somebody holds open. */
export interface Held<K extends Kind> {
  readonly uri: Uri;
  readonly view: Readable<View<States[K]>>;
  /**
   * Wishes for a change. It is shown at once, sent when the channel is live, and sent again with its number when the
   * connection was lost before the answer. Fails with the host's reason if the host does not want it, and is undone.
   */
  dispatch(action: Action): Promise<Envelope>;
  /** Lets go of it; more than once is the same as once. */
  close(): void;
}

/** How the client has (again) become part of the host's life. */
export type Return = 'initialized' | 'replayed' | 'snapshots';

const VERSIONS = ['1.0.0', '0.9.0'];
const TIMEOUT = 30_000;
const LINGER = 10_000;
/** What a host answers that does not have a channel: the last of them where its address cannot be one of this host. */
const ABSENT: ReadonlySet<number> = new Set([Code.sessionNotFound, Code.notFound, Code.invalidParams]);

export class Client {
  readonly clientId: string;
  readonly environment: Environment;
  readonly batch: Batch;
  /** What the host said about itself. */
  readonly host: Readable<InitializeResult | undefined>;
  readonly root: Readable<View<RootState>>;
  readonly #options: ClientOptions;
  readonly #link: Link;
  readonly #host = new Value<InitializeResult | undefined>(undefined);
  readonly #channels = new Map<Uri, Channel>();
  readonly #handlers = new Map<string, Handler>();
  readonly #notified = new Map<string, Listeners<never>>();
  readonly #returned = new Listeners<Return>();
  readonly #rejected = new Listeners<RejectedError | LostError>();
  /** Whether a host has met this client. */
  #met = false;
  #return: Return = 'initialized';
  #lastSeen = 0;
  #clientSeq = 0;
  readonly #root: Held<'root'>;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.clientId = options.clientId ?? newId();
    this.environment = options.environment ?? browser();
    this.batch = new Batch(this.environment);
    this.host = this.#host;
    this.#link = new Link(
      { ...options, environment: this.environment },
      {
        handshake: (rpc) => this.#handshake(rpc),
        ready: (rpc) => this.#ready(rpc),
        notified: (method, params) => this.#heard(method, params),
        handler: (method) => this.#handlers.get(method),
        lost: () => this.#lost(),
      },
    );
    this.#root = this.open('root', ROOT);
    this.root = this.#root.view;
  }

  get connection(): Readable<LinkState> {
    return this.#link.state;
  }

  start(): void {
    this.#link.start();
  }

  /** Ends the connection. What was not answered fails. */
  stop(): void {
    this.#link.stop();
    const error = new DisconnectedError('The client was stopped.');
    for (const channel of this.#channels.values()) channel.fail(() => true, error);
  }

  /** Does now what would be done later: connects, and asks for what the host has not shown. */
  retry(): void {
    this.#link.wake();
    for (const channel of this.#channels.values()) if (channel.stopWaiting) this.#askAgain(channel);
  }

  /** Asks the host. While there is no connection it waits for one, but not longer than for an answer. */
  async request<M extends Method>(method: M, params: Params<M>, options: RequestOptions = {}): Promise<Result<M>> {
    options.signal?.throwIfAborted();
    const timeout = options.timeout ?? this.#timeout;
    const before = this.environment.now();
    const rpc = this.#link.rpc ?? (await this.#connected(timeout, options.signal));
    const rest = Math.max(1, timeout - (this.environment.now() - before));
    return rpc.request<Result<M>>(method, params, { ...options, timeout: rest });
  }

  /** Listens to what the host says without being asked. */
  on<N extends keyof Notifications>(method: N, run: (params: Notifications[N]) => void): () => void {
    const listeners = this.#notified.get(method) ?? new Listeners<never>();
    this.#notified.set(method, listeners);
    return listeners.add(run as (params: never) => void);
  }

  /** Tells when the client is (again) part of the host's life. What was only notified meanwhile was missed. */
  onReturn(run: (how: Return) => void): () => void {
    return this.#returned.add(run);
  }

  /** Tells of every wish that the host did not take, also where nobody waits for the answer. */
  onRejected(run: (error: RejectedError | LostError) => void): () => void {
    return this.#rejected.add(run);
  }

  /** Carries out requests of the host. */
  handle(method: string, handler: Handler): void {
    this.#handlers.set(method, handler);
  }

  /** Opens a channel, or holds one more time what is open. The extent counts for the first one. */
  open<K extends Kind>(kind: K, uri: Uri, extent?: Extent): Held<K> {
    const channel = this.#channel(kind, uri, extent);
    channel.holders += 1;
    channel.stopLinger?.();
    channel.stopLinger = undefined;
    channel.reopened();
    this.#subscribe(channel);
    let held = true;
    return {
      uri,
      view: channel.view,
      dispatch: (action) => this.#dispatch(channel, action),
      close: () => {
        if (held) this.#release(channel);
        held = false;
      },
    };
  }

  get #timeout(): number {
    return this.#options.timeout ?? TIMEOUT;
  }

  #channel<K extends Kind>(kind: K, uri: Uri, extent: Extent | undefined): Channel<K> {
    const known = this.#channels.get(uri);
    if (known && known.kind !== kind) throw new TypeError(`${uri} is open as ${known.kind}, not as ${kind}.`);
    const channel = (known as Channel<K> | undefined) ?? new Channel(kind, uri, extent, this.batch);
    this.#channels.set(uri, channel as unknown as Channel);
    return channel;
  }

  #release(channel: { holders: number; stopLinger: (() => void) | undefined; uri: Uri }): void {
    channel.holders -= 1;
    if (channel.holders > 0) return;
    const linger = this.#options.linger ?? LINGER;
    channel.stopLinger = this.environment.after(linger, () => {
      channel.stopLinger = undefined;
      this.#forget(channel.uri);
    });
  }

  /** Lets a channel go that nobody holds, once its wishes are answered: the answers come by the subscription. */
  #forget(uri: Uri): void {
    const channel = this.#channels.get(uri);
    if (!channel || channel.holders > 0 || channel.model.wishes.length > 0) return;
    this.#channels.delete(uri);
    channel.stopWaiting?.();
    if (!channel.isGone) this.#link.rpc?.notify('unsubscribe', { channel: uri });
  }

  #dispatch<K extends Kind>(channel: Channel<K>, action: Action): Promise<Envelope> {
    const answer = new Promise<Envelope>((resolve, reject) => {
      const told = (error: Error) => {
        if (error instanceof RejectedError || error instanceof LostError) this.#rejected.tell(error);
        reject(error);
      };
      this.#clientSeq += 1;
      const wish: OwnWish = { clientSeq: this.#clientSeq, action, sentOn: undefined, resolve, reject: told };
      channel.wish(wish);
    });
    // Whoever does not wait for the answer is told by `onRejected`.
    answer.catch(() => undefined);
    if (channel.isGone) channel.gone('This is not there any more.');
    else this.#send();
    return answer;
  }

  /** Sends wishes that this connection has not seen, in the order in which they were made, where an answer would be heard. */
  #send(): void {
    const rpc = this.#link.rpc;
    if (!rpc) return;
    const live = [...this.#channels.values()].filter((channel) => channel.isLive);
    const unsent = live.flatMap((channel) =>
      channel.model.wishes.filter((wish) => wish.sentOn !== rpc).map((wish) => ({ channel: channel.uri, wish })),
    );
    unsent.sort((one, other) => one.wish.clientSeq - other.wish.clientSeq);
    for (const { channel, wish } of unsent) {
      wish.sentOn = rpc;
      rpc.notify('dispatchAction', { channel, clientSeq: wish.clientSeq, action: wish.action });
    }
  }

  async #handshake(rpc: Rpc): Promise<void> {
    if (this.#met && (await this.#reconnect(rpc))) return;
    const params = {
      channel: ROOT,
      protocolVersions: VERSIONS,
      clientId: this.clientId,
      initialSubscriptions: [ROOT],
      ...(this.#options.clientInfo && { clientInfo: this.#options.clientInfo }),
    };
    try {
      const receive = (result: InitializeResult) => this.#initialized(result);
      await rpc.request('initialize', params, { timeout: this.#timeout, receive });
    } catch (error) {
      if (error instanceof RpcError && error.code === Code.unsupportedVersion) throw new Refused(error.message);
      throw error;
    }
  }

  /** Whether the host knows this client. */
  async #reconnect(rpc: Rpc): Promise<boolean> {
    const subscriptions = [...this.#channels.values()]
      .filter((channel) => channel.follows)
      .map((channel) => channel.uri);
    const params = { channel: ROOT, clientId: this.clientId, lastSeenServerSeq: this.#lastSeen, subscriptions };
    const receive = (result: ReconnectResult) => this.#cameBack(result, subscriptions);
    try {
      await rpc.request('reconnect', params, { timeout: this.#timeout, receive });
      return true;
    } catch (error) {
      if (!(error instanceof RpcError && error.code === Code.notFound)) throw error;
      this.#forgotten();
      return false;
    }
  }

  /**
   * What was sent to a host that has forgotten this client may have been taken: once more might be twice. That is so from now
   * on, since the host may get to know the client again by an answer that never arrives here.
   */
  #forgotten(): void {
    this.#met = false;
    for (const channel of this.#channels.values()) {
      channel.fail((wish) => wish.sentOn !== undefined, new LostError());
    }
  }

  #initialized(result: InitializeResult): void {
    for (const channel of this.#channels.values()) channel.outdated();
    this.#met = true;
    this.#return = 'initialized';
    this.#lastSeen = result.serverSeq;
    this.#host.set(result);
    this.#restore(result.snapshots);
  }

  #cameBack(result: ReconnectResult, subscriptions: readonly Uri[]): void {
    if (result.type === 'replay') {
      const missing = new Set(result.missing);
      for (const uri of subscriptions) {
        const channel = this.#channels.get(uri);
        if (missing.has(uri)) channel?.gone('The host does not have this any more.');
        else channel?.resumed();
      }
      for (const envelope of result.actions) this.#envelope(envelope);
      this.#return = 'replayed';
      return;
    }
    const found = new Set(result.snapshots.map((snapshot) => snapshot.resource));
    for (const uri of subscriptions) {
      if (!found.has(uri)) this.#channels.get(uri)?.gone('The host does not have this any more.');
    }
    this.#restore(result.snapshots);
    this.#return = 'snapshots';
  }

  #restore(snapshots: readonly Snapshot[]): void {
    for (const { resource, state, fromSeq } of snapshots) this.#channels.get(resource)?.reset(state, fromSeq);
  }

  #ready(_rpc: Rpc): void {
    for (const channel of this.#channels.values()) this.#subscribe(channel);
    this.#send();
    this.#returned.tell(this.#return);
  }

  /** Asks for a channel's state and everything that follows, unless that is so already. */
  #subscribe<K extends Kind>(channel: Channel<K>): void {
    const rpc = this.#link.rpc;
    if (!rpc || channel.isLive || channel.isGone || channel.asking === rpc || channel.stopWaiting) return;
    channel.asking = rpc;
    const params = { channel: channel.uri, ...(channel.extent && { view: channel.extent }) };
    const receive = ({ snapshot }: Result<'subscribe'>) => {
      if (!snapshot) throw new RpcError(Code.internal, 'The host sent no state.');
      channel.reset(snapshot.state, snapshot.fromSeq);
      this.#send();
    };
    const settled = () => {
      if (channel.asking === rpc) channel.asking = undefined;
    };
    rpc.request('subscribe', params, { timeout: this.#timeout, receive }).then(settled, (error: Error) => {
      settled();
      // Without a connection it is asked for again with the next one.
      if (error instanceof DisconnectedError || rpc !== this.#link.rpc) return;
      if (error instanceof RpcError && ABSENT.has(error.code)) channel.gone(error.message);
      else this.#askLater(channel, error);
    });
  }

  /** A host that was too slow, or had a trouble of its own, may do better the next time; wishes wait for it. */
  #askLater<K extends Kind>(channel: Channel<K>, error: Error): void {
    // Nobody wants it any more, or it has come in another way.
    if (this.#channels.get(channel.uri)?.view !== channel.view || channel.isLive) return;
    channel.failed(error);
    const wait = delay(channel.failures, this.environment.random(), this.#options.backoff);
    channel.stopWaiting = this.environment.after(wait, () => {
      channel.stopWaiting = undefined;
      this.#subscribe(channel);
    });
  }

  #askAgain<K extends Kind>(channel: Channel<K>): void {
    channel.stopWaiting?.();
    channel.stopWaiting = undefined;
    channel.asked();
    this.#subscribe(channel);
  }

  #heard(method: string, params: unknown): void {
    if (method === 'action') this.#envelope(params as Envelope);
    this.#notified.get(method)?.tell(params as never);
  }

  #envelope(envelope: Envelope): void {
    if (!Number.isSafeInteger(envelope?.serverSeq)) throw new TypeError('The host sent an envelope without a number.');
    this.#lastSeen = Math.max(this.#lastSeen, envelope.serverSeq);
    const channel = this.#channels.get(envelope.channel);
    if (!channel) return;
    const mine = envelope.origin?.clientId === this.clientId;
    const wish = this.#took(channel, envelope, mine);
    if (!wish) return;
    const { rejectionReason: reason } = envelope;
    if (reason === undefined) wish.resolve(envelope);
    else wish.reject(new RejectedError(channel.uri, wish.action, reason));
    // It was only kept for this answer.
    if (channel.stopLinger === undefined) this.#forget(channel.uri);
  }

  /** An action that makes no sense here may have made sense to the host: then the state is asked for anew. */
  #took(channel: Channel, envelope: Envelope, mine: boolean): OwnWish | undefined {
    const wish = channel.model.wishes.find((one) => mine && one.clientSeq === envelope.origin?.clientSeq);
    try {
      channel.take(envelope, mine);
    } catch {
      channel.outdated();
      this.#subscribe(channel);
    }
    return wish;
  }

  #lost(): void {
    for (const channel of this.#channels.values()) channel.away();
  }

  #connected(timeout: number, signal: AbortSignal | undefined): Promise<Rpc> {
    return new Promise((resolve, reject) => {
      const done = (settle: () => void) => {
        stopTimer();
        signal?.removeEventListener('abort', abort);
        // The value is told at once, before there is something to stop.
        queueMicrotask(() => stopListening());
        settle();
      };
      const abort = () => done(() => reject(signal?.reason));
      const late = () => done(() => reject(new DisconnectedError('There is no connection to the host.')));
      const stopTimer = this.environment.after(timeout, late);
      signal?.addEventListener('abort', abort);
      const stopListening = this.connection.subscribe((state) => {
        const { rpc } = this.#link;
        if (rpc) done(() => resolve(rpc));
        else if (state.phase === 'refused') done(() => reject(new DisconnectedError(state.reason)));
      });
    });
  }
}
