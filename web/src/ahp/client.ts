/**
 * AHP client: one logical client over a series of connections. Owns the channels, subscriptions and pending actions. Does
 * not know the page or Svelte.
 */

import { type Backoff, backoffDelay } from './backoff.ts';
import { Channel, type ChannelView, type TrackedAction, type ViewOptions } from './channel.ts';
import { Connection, type ConnectionState, HandshakeRefusedError } from './connection.ts';
import { browserEnvironment, type Environment, newId } from './environment.ts';
import { DisconnectedError, RejectedError, RpcError, UnconfirmedError } from './errors.ts';
import { Listeners, type Readable, UpdateBatch, WritableValue } from './observable.ts';
import type { RequestHandler, RpcConnection } from './rpc.ts';
import {
  type Action,
  type ChannelKind,
  type ChannelStates,
  type CommandMethod,
  type CommandParams,
  type CommandResult,
  type Envelope,
  ErrorCode,
  type HostNotifications,
  type Implementation,
  type InitializeResult,
  type ReconnectResult,
  ROOT_CHANNEL,
  type RootState,
  type Snapshot,
  type Uri,
} from './types/index.ts';

export interface ClientOptions {
  /** URL of the host; read for each connection, since the token may change. */
  readonly url: () => string;
  /**
   * Identifies this client to the host. It must be unique per page load, because the host replays its earlier response to
   * a repeated clientSeq.
   */
  readonly clientId?: string;
  readonly clientInfo?: Implementation;
  readonly environment?: Environment;
  readonly backoff?: Backoff;
  /** Request timeout. */
  readonly requestTimeoutMs?: number;
  /** Time before a channel without handles is unsubscribed. */
  readonly releaseDelayMs?: number;
  /** Idle time before a ping, and its timeout. */
  readonly pingAfterMs?: number;
  readonly pingTimeoutMs?: number;
}

export interface RequestOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** An open channel. Several handles share one subscription. */
export interface ChannelHandle<K extends ChannelKind> {
  readonly uri: Uri;
  readonly view: Readable<ChannelView<ChannelStates[K]>>;
  /**
   * Dispatches an action. It applies optimistically at once, is sent while the channel is live, and is sent again with
   * the same clientSeq after a reconnect. Rejects with the host's reason and rolls back if the host rejects it.
   */
  dispatch(action: Action): Promise<Envelope>;
  /** Releases the handle. Idempotent. */
  close(): void;
}

/** How the client resynchronized with the host after connecting. */
export type ReconnectOutcome = 'initialized' | 'replayed' | 'snapshots';

const PROTOCOL_VERSIONS = ['1.0.0', '0.9.0'];
const DEFAULT_REQUEST_TIMEOUT_MS = 30_000;
const DEFAULT_RELEASE_DELAY_MS = 10_000;
/** Error codes for a channel that does not exist; `invalidParams` covers URIs that this host cannot have. */
const CHANNEL_NOT_FOUND_CODES: ReadonlySet<number> = new Set([
  ErrorCode.sessionNotFound,
  ErrorCode.notFound,
  ErrorCode.invalidParams,
]);

export class Client {
  readonly clientId: string;
  readonly environment: Environment;
  readonly batch: UpdateBatch;
  /** The host's `initialize` result. */
  readonly host: Readable<InitializeResult | undefined>;
  readonly root: Readable<ChannelView<RootState>>;
  readonly #options: ClientOptions;
  readonly #connection: Connection;
  readonly #host = new WritableValue<InitializeResult | undefined>(undefined);
  readonly #channels = new Map<Uri, Channel>();
  readonly #handlers = new Map<string, RequestHandler>();
  readonly #notificationListeners = new Map<string, Listeners<never>>();
  readonly #reconnectListeners = new Listeners<ReconnectOutcome>();
  readonly #rejectionListeners = new Listeners<RejectedError | UnconfirmedError>();
  /** Whether a host has accepted this client id. */
  #isKnownToHost = false;
  #reconnectOutcome: ReconnectOutcome = 'initialized';
  #lastServerSeq = 0;
  #clientSeq = 0;
  readonly #root: ChannelHandle<'root'>;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.clientId = options.clientId ?? newId();
    this.environment = options.environment ?? browserEnvironment();
    this.batch = new UpdateBatch(this.environment);
    this.host = this.#host;
    this.#connection = new Connection(
      { ...options, environment: this.environment },
      {
        handshake: (rpc) => this.#handshake(rpc),
        onReady: (rpc) => this.#onReady(rpc),
        onNotification: (method, params) => this.#onNotification(method, params),
        findHandler: (method) => this.#handlers.get(method),
        onDisconnected: () => this.#onDisconnected(),
      },
    );
    this.#root = this.open('root', ROOT_CHANNEL);
    this.root = this.#root.view;
  }

  get connection(): Readable<ConnectionState> {
    return this.#connection.state;
  }

  start(): void {
    this.#connection.start();
  }

  /** Closes the connection and rejects pending actions. */
  stop(): void {
    this.#connection.stop();
    const error = new DisconnectedError('The client was stopped.');
    for (const channel of this.#channels.values()) channel.rejectPending(() => true, error);
  }

  /** Reconnects and resubscribes now instead of after the backoff. */
  retry(): void {
    this.#connection.wake();
    for (const channel of this.#channels.values()) if (channel.cancelResubscribe) this.#resubscribeNow(channel);
  }

  /** Sends a request. Without a connection it waits for one until the timeout. */
  async request<M extends CommandMethod>(
    method: M,
    params: CommandParams<M>,
    options: RequestOptions = {},
  ): Promise<CommandResult<M>> {
    options.signal?.throwIfAborted();
    const timeoutMs = options.timeoutMs ?? this.#requestTimeoutMs;
    const before = this.environment.now();
    const rpc = this.#connection.rpc ?? (await this.#waitForConnection(timeoutMs, options.signal));
    const rest = Math.max(1, timeoutMs - (this.environment.now() - before));
    return rpc.request<CommandResult<M>>(method, params, { ...options, timeoutMs: rest });
  }

  /** Subscribes to a notification of the host. */
  on<N extends keyof HostNotifications>(method: N, run: (params: HostNotifications[N]) => void): () => void {
    const listeners = this.#notificationListeners.get(method) ?? new Listeners<never>();
    this.#notificationListeners.set(method, listeners);
    return listeners.add(run as (params: never) => void);
  }

  /** Notifies after each (re)connect. Notifications sent in between were missed. */
  onReconnected(run: (outcome: ReconnectOutcome) => void): () => void {
    return this.#reconnectListeners.add(run);
  }

  /** Notifies about every rejected action, even if its promise is unused. */
  onRejected(run: (error: RejectedError | UnconfirmedError) => void): () => void {
    return this.#rejectionListeners.add(run);
  }

  /** Registers a handler for requests of the host. */
  handle(method: string, handler: RequestHandler): void {
    this.#handlers.set(method, handler);
  }

  /** Opens a channel or adds a handle to an open one. The view options of the first handle apply. */
  open<K extends ChannelKind>(kind: K, uri: Uri, viewOptions?: ViewOptions): ChannelHandle<K> {
    const channel = this.#getOrCreateChannel(kind, uri, viewOptions);
    channel.handleCount += 1;
    channel.cancelRelease?.();
    channel.cancelRelease = undefined;
    channel.reopen();
    this.#subscribe(channel);
    let isOpen = true;
    return {
      uri,
      view: channel.view,
      dispatch: (action) => this.#dispatch(channel, action),
      close: () => {
        if (isOpen) this.#release(channel);
        isOpen = false;
      },
    };
  }

  get #requestTimeoutMs(): number {
    return this.#options.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS;
  }

  #getOrCreateChannel<K extends ChannelKind>(kind: K, uri: Uri, viewOptions: ViewOptions | undefined): Channel<K> {
    const existing = this.#channels.get(uri);
    if (existing && existing.kind !== kind) throw new TypeError(`${uri} is open as ${existing.kind}, not as ${kind}.`);
    const channel = (existing as Channel<K> | undefined) ?? new Channel(kind, uri, viewOptions, this.batch);
    this.#channels.set(uri, channel as unknown as Channel);
    return channel;
  }

  #release(channel: { handleCount: number; cancelRelease: (() => void) | undefined; uri: Uri }): void {
    channel.handleCount -= 1;
    if (channel.handleCount > 0) return;
    const delayMs = this.#options.releaseDelayMs ?? DEFAULT_RELEASE_DELAY_MS;
    channel.cancelRelease = this.environment.after(delayMs, () => {
      channel.cancelRelease = undefined;
      this.#removeUnused(channel.uri);
    });
  }

  /**
   * Unsubscribes a channel without handles once its pending actions are settled, since their echoes arrive on the
   * subscription.
   */
  #removeUnused(uri: Uri): void {
    const channel = this.#channels.get(uri);
    if (!channel || channel.handleCount > 0 || channel.optimistic.pending.length > 0) return;
    this.#channels.delete(uri);
    channel.cancelResubscribe?.();
    if (!channel.isGone) this.#connection.rpc?.notify('unsubscribe', { channel: uri });
  }

  #dispatch<K extends ChannelKind>(channel: Channel<K>, action: Action): Promise<Envelope> {
    const answer = new Promise<Envelope>((resolve, reject) => {
      const rejectAndNotify = (error: Error) => {
        if (error instanceof RejectedError || error instanceof UnconfirmedError) this.#rejectionListeners.notify(error);
        reject(error);
      };
      this.#clientSeq += 1;
      const pending: TrackedAction = {
        clientSeq: this.#clientSeq,
        action,
        sentOn: undefined,
        resolve,
        reject: rejectAndNotify,
      };
      channel.addPending(pending);
    });
    // Callers that ignore the promise are covered by `onRejected`.
    answer.catch(() => undefined);
    if (channel.isGone) channel.markGone('This channel no longer exists.');
    else this.#sendPending();
    return answer;
  }

  /** Sends the pending actions of live channels that this connection has not sent, in clientSeq order. */
  #sendPending(): void {
    const rpc = this.#connection.rpc;
    if (!rpc) return;
    const live = [...this.#channels.values()].filter((channel) => channel.isLive);
    const unsent = live.flatMap((channel) =>
      channel.optimistic.pending
        .filter((pending) => pending.sentOn !== rpc)
        .map((pending) => ({ channel: channel.uri, pending })),
    );
    unsent.sort((one, other) => one.pending.clientSeq - other.pending.clientSeq);
    for (const { channel, pending } of unsent) {
      pending.sentOn = rpc;
      rpc.notify('dispatchAction', { channel, clientSeq: pending.clientSeq, action: pending.action });
    }
  }

  async #handshake(rpc: RpcConnection): Promise<void> {
    if (this.#isKnownToHost && (await this.#reconnect(rpc))) return;
    const params = {
      channel: ROOT_CHANNEL,
      protocolVersions: PROTOCOL_VERSIONS,
      clientId: this.clientId,
      initialSubscriptions: [ROOT_CHANNEL],
      ...(this.#options.clientInfo && { clientInfo: this.#options.clientInfo }),
    };
    try {
      const receive = (result: InitializeResult) => this.#applyInitialize(result);
      await rpc.request('initialize', params, { timeoutMs: this.#requestTimeoutMs, onResult: receive });
    } catch (error) {
      if (error instanceof RpcError && error.code === ErrorCode.unsupportedVersion)
        throw new HandshakeRefusedError(error.message);
      throw error;
    }
  }

  /** Whether the host still knows this client. */
  async #reconnect(rpc: RpcConnection): Promise<boolean> {
    const subscriptions = [...this.#channels.values()]
      .filter((channel) => channel.canReplay)
      .map((channel) => channel.uri);
    const params = {
      channel: ROOT_CHANNEL,
      clientId: this.clientId,
      lastSeenServerSeq: this.#lastServerSeq,
      subscriptions,
    };
    const receive = (result: ReconnectResult) => this.#applyReconnect(result, subscriptions);
    try {
      await rpc.request('reconnect', params, { timeoutMs: this.#requestTimeoutMs, onResult: receive });
      return true;
    } catch (error) {
      if (!(error instanceof RpcError && error.code === ErrorCode.notFound)) throw error;
      this.#rejectUnconfirmed();
      return false;
    }
  }

  /**
   * The host forgot this client and may have applied the unconfirmed actions, so sending them again could apply them
   * twice. They are rejected now, because the host may learn the client id again through a response that never arrives.
   */
  #rejectUnconfirmed(): void {
    this.#isKnownToHost = false;
    for (const channel of this.#channels.values()) {
      channel.rejectPending((pending) => pending.sentOn !== undefined, new UnconfirmedError());
    }
  }

  #applyInitialize(result: InitializeResult): void {
    for (const channel of this.#channels.values()) channel.markOutdated();
    this.#isKnownToHost = true;
    this.#reconnectOutcome = 'initialized';
    this.#lastServerSeq = result.serverSeq;
    this.#host.set(result);
    this.#applySnapshots(result.snapshots);
  }

  #applyReconnect(result: ReconnectResult, subscriptions: readonly Uri[]): void {
    if (result.type === 'replay') {
      const missing = new Set(result.missing);
      for (const uri of subscriptions) {
        const channel = this.#channels.get(uri);
        if (missing.has(uri)) channel?.markGone('The host no longer has this channel.');
        else channel?.markLive();
      }
      for (const envelope of result.actions) this.#onEnvelope(envelope);
      this.#reconnectOutcome = 'replayed';
      return;
    }
    const found = new Set(result.snapshots.map((snapshot) => snapshot.resource));
    for (const uri of subscriptions) {
      if (!found.has(uri)) this.#channels.get(uri)?.markGone('The host no longer has this channel.');
    }
    this.#applySnapshots(result.snapshots);
    this.#reconnectOutcome = 'snapshots';
  }

  #applySnapshots(snapshots: readonly Snapshot[]): void {
    for (const { resource, state, fromSeq } of snapshots) this.#channels.get(resource)?.applySnapshot(state, fromSeq);
  }

  #onReady(_rpc: RpcConnection): void {
    for (const channel of this.#channels.values()) this.#subscribe(channel);
    this.#sendPending();
    this.#reconnectListeners.notify(this.#reconnectOutcome);
  }

  /** Subscribes to a channel unless it is live or a request is in flight. */
  #subscribe<K extends ChannelKind>(channel: Channel<K>): void {
    const rpc = this.#connection.rpc;
    if (!rpc || channel.isLive || channel.isGone || channel.subscribingOn === rpc || channel.cancelResubscribe) return;
    channel.subscribingOn = rpc;
    const params = { channel: channel.uri, ...(channel.viewOptions && { view: channel.viewOptions }) };
    const receive = ({ snapshot }: CommandResult<'subscribe'>) => {
      if (!snapshot) throw new RpcError(ErrorCode.internal, 'The host sent no snapshot.');
      channel.applySnapshot(snapshot.state, snapshot.fromSeq);
      this.#sendPending();
    };
    const settled = () => {
      if (channel.subscribingOn === rpc) channel.subscribingOn = undefined;
    };
    rpc
      .request('subscribe', params, { timeoutMs: this.#requestTimeoutMs, onResult: receive })
      .then(settled, (error: Error) => {
        settled();
        // The next connection subscribes again.
        if (error instanceof DisconnectedError || rpc !== this.#connection.rpc) return;
        if (error instanceof RpcError && CHANNEL_NOT_FOUND_CODES.has(error.code)) channel.markGone(error.message);
        else this.#resubscribeLater(channel, error);
      });
  }

  /** Schedules another attempt after a timeout or a host error; pending actions wait. */
  #resubscribeLater<K extends ChannelKind>(channel: Channel<K>, error: Error): void {
    // The channel was released or became live meanwhile.
    if (this.#channels.get(channel.uri)?.view !== channel.view || channel.isLive) return;
    channel.markSubscribeFailed(error);
    const wait = backoffDelay(channel.subscribeFailures, this.environment.random(), this.#options.backoff);
    channel.cancelResubscribe = this.environment.after(wait, () => {
      channel.cancelResubscribe = undefined;
      this.#subscribe(channel);
    });
  }

  #resubscribeNow<K extends ChannelKind>(channel: Channel<K>): void {
    channel.cancelResubscribe?.();
    channel.cancelResubscribe = undefined;
    channel.clearError();
    this.#subscribe(channel);
  }

  #onNotification(method: string, params: unknown): void {
    if (method === 'action') this.#onEnvelope(params as Envelope);
    this.#notificationListeners.get(method)?.notify(params as never);
  }

  #onEnvelope(envelope: Envelope): void {
    if (!Number.isSafeInteger(envelope?.serverSeq))
      throw new TypeError('The host sent an envelope without a sequence number.');
    this.#lastServerSeq = Math.max(this.#lastServerSeq, envelope.serverSeq);
    const channel = this.#channels.get(envelope.channel);
    if (!channel) return;
    const isOwn = envelope.origin?.clientId === this.clientId;
    const pending = this.#applyToChannel(channel, envelope, isOwn);
    if (!pending) return;
    const { rejectionReason: reason } = envelope;
    if (reason === undefined) pending.resolve(envelope);
    else pending.reject(new RejectedError(channel.uri, pending.action, reason, envelope._meta));
    // The channel was retained only for this echo.
    if (channel.cancelRelease === undefined) this.#removeUnused(channel.uri);
  }

  /** An action that cannot be reduced here outdates the state, so the channel is subscribed again. */
  #applyToChannel(channel: Channel, envelope: Envelope, isOwn: boolean): TrackedAction | undefined {
    const pending = channel.optimistic.pending.find((one) => isOwn && one.clientSeq === envelope.origin?.clientSeq);
    try {
      channel.applyEnvelope(envelope, isOwn);
    } catch {
      channel.markOutdated();
      this.#subscribe(channel);
    }
    return pending;
  }

  #onDisconnected(): void {
    for (const channel of this.#channels.values()) channel.markDisconnected();
  }

  #waitForConnection(timeoutMs: number, signal: AbortSignal | undefined): Promise<RpcConnection> {
    return new Promise((resolve, reject) => {
      const done = (settle: () => void) => {
        stopTimer();
        signal?.removeEventListener('abort', abort);
        // `subscribe` calls back synchronously, before `stopListening` is assigned.
        queueMicrotask(() => stopListening());
        settle();
      };
      const abort = () => done(() => reject(signal?.reason));
      const timeOut = () => done(() => reject(new DisconnectedError('Not connected to the host.')));
      const stopTimer = this.environment.after(timeoutMs, timeOut);
      signal?.addEventListener('abort', abort);
      const stopListening = this.connection.subscribe((state) => {
        const { rpc } = this.#connection;
        if (rpc) done(() => resolve(rpc));
        else if (state.phase === 'refused') done(() => reject(new DisconnectedError(state.reason)));
      });
    });
  }
}
