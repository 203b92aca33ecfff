/** One channel of the host, as this client holds it. */

import { ChannelGoneError } from './errors.ts';
import { BatchedValue, type Readable, type UpdateBatch } from './observable.ts';
import { OptimisticState, type PendingAction } from './optimistic-state.ts';
import { type Reducer, reducers } from './reducers/index.ts';
import type { RpcConnection } from './rpc.ts';
import type { AnyChannelState, ChannelKind, ChannelStates, Envelope, Uri } from './types/index.ts';

/** What is shown of a channel. */
export interface ChannelView<S> {
  /** The state with this client's own wishes granted; none before the first snapshot. */
  readonly state: S | undefined;
  /** `disconnected` has a state that may be old, `gone` is not there (any more). */
  readonly status: 'loading' | 'live' | 'disconnected' | 'gone';
  /** How many wishes the host has not answered. */
  readonly pending: number;
  /** Why it is gone, or why the host has not shown it so far; then it is asked for again. */
  readonly error?: Error;
}

/** A wish with whoever waits for its answer. */
export interface TrackedAction extends PendingAction {
  /** The connection on which it was sent last. */
  sentOn: RpcConnection | undefined;
  resolve(envelope: Envelope): void;
  reject(error: Error): void;
}

/** How much of a chat is wanted at first. */
export interface ViewOptions {
  readonly turns?: number;
}

export class Channel<K extends ChannelKind = ChannelKind> {
  readonly uri: Uri;
  readonly kind: K;
  readonly optimistic: OptimisticState<ChannelStates[K], TrackedAction>;
  readonly view: Readable<ChannelView<ChannelStates[K]>>;
  readonly viewOptions: ViewOptions | undefined;
  /** How many hold it open. */
  handleCount = 0;
  /** Ends the time in which a channel is kept that nobody holds. */
  cancelRelease: (() => void) | undefined;
  /** Whether the state is as old as the last number that the client has seen: then a replay can go on from it. */
  canReplay = false;
  /** The connection on which a subscription is asked for, until it is answered. */
  subscribingOn: RpcConnection | undefined;
  /** How often the host has failed to answer that. */
  subscribeFailures = 0;
  /** Ends the time after which it is asked for again. */
  cancelResubscribe: (() => void) | undefined;
  #status: ChannelView<unknown>['status'] = 'loading';
  #error: Error | undefined;
  readonly #view: BatchedValue<ChannelView<ChannelStates[K]>>;

  constructor(kind: K, uri: Uri, viewOptions: ViewOptions | undefined, batch: UpdateBatch) {
    this.kind = kind;
    this.uri = uri;
    this.viewOptions = viewOptions;
    this.optimistic = new OptimisticState(reducers[kind] as Reducer<ChannelStates[K]>);
    this.#view = new BatchedValue(batch, () => this.#computeView());
    this.view = this.#view;
  }

  get isLive(): boolean {
    return this.#status === 'live';
  }

  get isGone(): boolean {
    return this.#status === 'gone';
  }

  /** The host's state as a whole: from now on envelopes follow. */
  applySnapshot(state: AnyChannelState, fromSeq: number): void {
    // The channel was subscribed to as this kind; the host knows what it is.
    this.optimistic.applySnapshot(state as ChannelStates[K], fromSeq);
    this.canReplay = true;
    this.subscribeFailures = 0;
    this.#setStatus('live');
  }

  /** The host goes on where it was. */
  markLive(): void {
    this.#setStatus('live');
  }

  /** The connection is gone. */
  markDisconnected(): void {
    this.cancelResubscribe?.();
    this.cancelResubscribe = undefined;
    this.subscribeFailures = 0;
    if (this.#status === 'live') this.#setStatus('disconnected');
    else if (!this.isGone) this.clearError();
  }

  /** The host did not show it. That says nothing about whether it is there. */
  markSubscribeFailed(error: Error): void {
    this.subscribeFailures += 1;
    this.#setStatus(this.#status, error);
  }

  /** It is asked for anew: what went wrong before is not said any more. */
  clearError(): void {
    if (this.#error) this.#setStatus(this.#status);
  }

  /** The state is older than what the client has seen elsewhere: only a whole one helps. */
  markOutdated(): void {
    this.canReplay = false;
    this.markDisconnected();
  }

  /** It is wanted again. */
  reopen(): void {
    if (this.isGone) this.#setStatus(this.optimistic.confirmed === undefined ? 'loading' : 'disconnected');
  }

  markGone(reason: string): void {
    const error = new ChannelGoneError(this.uri, reason);
    this.canReplay = false;
    this.#setStatus('gone', error);
    this.rejectPending(() => true, error);
  }

  applyEnvelope(envelope: Envelope, isOwn: boolean): TrackedAction | undefined {
    const before = this.optimistic.confirmed;
    // Between a state that is old and one that is on its way, envelopes have nothing to move; they still answer.
    const answered = this.isLive
      ? this.optimistic.applyEnvelope(envelope, isOwn)
      : this.optimistic.settlePending(envelope, isOwn);
    if (answered || this.optimistic.confirmed !== before) this.#view.invalidate();
    return answered;
  }

  addPending(pending: TrackedAction): void {
    this.optimistic.addPending(pending);
    this.#view.invalidate();
  }

  /** Gives wishes up. */
  rejectPending(matches: (pending: TrackedAction) => boolean, error: Error): void {
    const dropped = this.optimistic.removePending(matches);
    if (dropped.length > 0) this.#view.invalidate();
    for (const pending of dropped) pending.reject(error);
  }

  #setStatus(status: ChannelView<unknown>['status'], error?: Error): void {
    this.#status = status;
    this.#error = error;
    this.#view.invalidate();
  }

  #computeView(): ChannelView<ChannelStates[K]> {
    const view = { state: this.optimistic.state, status: this.#status, pending: this.optimistic.pending.length };
    return this.#error ? { ...view, error: this.#error } : view;
  }
}
