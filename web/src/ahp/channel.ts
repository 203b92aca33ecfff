/**
 * One channel of the host: its optimistic state, status and pending actions. Does not send anything; `client.ts`
 * subscribes and dispatches.
 */

import { ChannelGoneError } from './errors.ts';
import { BatchedValue, type Readable, type UpdateBatch } from './observable.ts';
import { OptimisticState, type PendingAction } from './optimistic-state.ts';
import { type Reducer, reducers } from './reducers/index.ts';
import type { RpcConnection } from './rpc.ts';
import type { AnyChannelState, ChannelKind, ChannelStates, Envelope, Uri } from './types/index.ts';

/** What subscribers see of a channel. */
export interface ChannelView<S> {
  /** The state with this client's pending actions applied; undefined before the first snapshot. */
  readonly state: S | undefined;
  /** `disconnected` has a state that may be outdated; `gone` does not exist on the host. */
  readonly status: 'loading' | 'live' | 'disconnected' | 'gone';
  /** Number of pending actions. */
  readonly pending: number;
  /** Why the channel is gone, or why the last subscription failed; a failed subscription is retried. */
  readonly error?: Error;
}

/** A pending action with the promise of its dispatch. */
export interface TrackedAction extends PendingAction {
  /** The connection on which it was last sent. */
  sentOn: RpcConnection | undefined;
  resolve(envelope: Envelope): void;
  reject(error: Error): void;
}

/** Options of the first subscription to a chat. */
export interface ViewOptions {
  readonly turns?: number;
}

export class Channel<K extends ChannelKind = ChannelKind> {
  readonly uri: Uri;
  readonly kind: K;
  readonly optimistic: OptimisticState<ChannelStates[K], TrackedAction>;
  readonly view: Readable<ChannelView<ChannelStates[K]>>;
  readonly viewOptions: ViewOptions | undefined;
  /** Number of open handles. */
  handleCount = 0;
  /** Cancels the release timer of a channel without handles. */
  cancelRelease: (() => void) | undefined;
  /** Whether the state is current up to the client's last sequence number, so that a replay can continue it. */
  canReplay = false;
  /** The connection with a subscribe request in flight. */
  subscribingOn: RpcConnection | undefined;
  /** Number of failed subscribe requests in a row. */
  subscribeFailures = 0;
  /** Cancels the resubscribe timer. */
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

  /** Applies a snapshot; envelopes follow from here. */
  applySnapshot(state: AnyChannelState, fromSeq: number): void {
    // The channel was opened with this kind, so the snapshot has its state type.
    this.optimistic.applySnapshot(state as ChannelStates[K], fromSeq);
    this.canReplay = true;
    this.subscribeFailures = 0;
    this.#setStatus('live');
  }

  /** Continues with the current state after a replay. */
  markLive(): void {
    this.#setStatus('live');
  }

  /** The connection closed. */
  markDisconnected(): void {
    this.cancelResubscribe?.();
    this.cancelResubscribe = undefined;
    this.subscribeFailures = 0;
    if (this.#status === 'live') this.#setStatus('disconnected');
    else if (!this.isGone) this.clearError();
  }

  /** A subscribe request failed. The channel may still exist. */
  markSubscribeFailed(error: Error): void {
    this.subscribeFailures += 1;
    this.#setStatus(this.#status, error);
  }

  /** Clears the last subscribe error before a retry. */
  clearError(): void {
    if (this.#error) this.#setStatus(this.#status);
  }

  /** The state is behind the client's sequence number, so only a snapshot can update it. */
  markOutdated(): void {
    this.canReplay = false;
    this.markDisconnected();
  }

  /** Reopens a channel that was gone. */
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
    // While a snapshot is in flight, envelopes do not change the outdated state, but they still settle pending actions.
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

  /** Rejects the pending actions that match. */
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
