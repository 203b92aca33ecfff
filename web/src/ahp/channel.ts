/** One channel of the host, as this client holds it. */

import { GoneError } from './errors.ts';
import { type Batch, Batched, type Readable } from './observable.ts';
import { Optimistic, type Wish } from './optimistic-state.ts';
import { type Reducer, reducers } from './reducers/index.ts';
import type { Rpc } from './rpc.ts';
import type { AnyState, Envelope, Kind, States, Uri } from './types/index.ts';

/** What is shown of a channel. */
export interface View<S> {
  /** The state with this client's own wishes granted; none before the first snapshot. */
  readonly state: S | undefined;
  /** `away` has a state that may be old, `gone` is not there (any more). */
  readonly status: 'loading' | 'live' | 'away' | 'gone';
  /** How many wishes the host has not answered. */
  readonly pending: number;
  /** Why it is gone, or why the host has not shown it so far; then it is asked for again. */
  readonly error?: Error;
}

/** A wish with whoever waits for its answer. */
export interface OwnWish extends Wish {
  /** The connection on which it was sent last. */
  sentOn: Rpc | undefined;
  resolve(envelope: Envelope): void;
  reject(error: Error): void;
}

/** How much of a chat is wanted at first. */
export interface Extent {
  readonly turns?: number;
}

export class Channel<K extends Kind = Kind> {
  readonly uri: Uri;
  readonly kind: K;
  readonly model: Optimistic<States[K], OwnWish>;
  readonly view: Readable<View<States[K]>>;
  readonly extent: Extent | undefined;
  /** How many hold it open. */
  holders = 0;
  /** Ends the time in which a channel is kept that nobody holds. */
  stopLinger: (() => void) | undefined;
  /** Whether the state is as old as the last number that the client has seen: then a replay can go on from it. */
  follows = false;
  /** The connection on which a subscription is asked for, until it is answered. */
  asking: Rpc | undefined;
  /** How often the host has failed to answer that. */
  failures = 0;
  /** Ends the time after which it is asked for again. */
  stopWaiting: (() => void) | undefined;
  #status: View<unknown>['status'] = 'loading';
  #error: Error | undefined;
  readonly #view: Batched<View<States[K]>>;

  constructor(kind: K, uri: Uri, extent: Extent | undefined, batch: Batch) {
    this.kind = kind;
    this.uri = uri;
    this.extent = extent;
    this.model = new Optimistic(reducers[kind] as Reducer<States[K]>);
    this.#view = new Batched(batch, () => this.#show());
    this.view = this.#view;
  }

  get isLive(): boolean {
    return this.#status === 'live';
  }

  get isGone(): boolean {
    return this.#status === 'gone';
  }

  /** The host's state as a whole: from now on envelopes follow. */
  reset(state: AnyState, fromSeq: number): void {
    // The channel was subscribed to as this kind; the host knows what it is.
    this.model.reset(state as States[K], fromSeq);
    this.follows = true;
    this.failures = 0;
    this.#become('live');
  }

  /** The host goes on where it was. */
  resumed(): void {
    this.#become('live');
  }

  /** The connection is gone. */
  away(): void {
    this.stopWaiting?.();
    this.stopWaiting = undefined;
    this.failures = 0;
    if (this.#status === 'live') this.#become('away');
    else if (!this.isGone) this.asked();
  }

  /** The host did not show it. That says nothing about whether it is there. */
  failed(error: Error): void {
    this.failures += 1;
    this.#become(this.#status, error);
  }

  /** It is asked for anew: what went wrong before is not said any more. */
  asked(): void {
    if (this.#error) this.#become(this.#status);
  }

  /** The state is older than what the client has seen elsewhere: only a whole one helps. */
  outdated(): void {
    this.follows = false;
    this.away();
  }

  /** It is wanted again. */
  reopened(): void {
    if (this.isGone) this.#become(this.model.confirmed === undefined ? 'loading' : 'away');
  }

  gone(reason: string): void {
    const error = new GoneError(this.uri, reason);
    this.follows = false;
    this.#become('gone', error);
    this.fail(() => true, error);
  }

  take(envelope: Envelope, mine: boolean): OwnWish | undefined {
    const before = this.model.confirmed;
    // Between a state that is old and one that is on its way, envelopes have nothing to move; they still answer.
    const answered = this.isLive ? this.model.take(envelope, mine) : this.model.answer(envelope, mine);
    if (answered || this.model.confirmed !== before) this.#view.changed();
    return answered;
  }

  wish(wish: OwnWish): void {
    this.model.wish(wish);
    this.#view.changed();
  }

  /** Gives wishes up. */
  fail(fits: (wish: OwnWish) => boolean, error: Error): void {
    const dropped = this.model.drop(fits);
    if (dropped.length > 0) this.#view.changed();
    for (const wish of dropped) wish.reject(error);
  }

  #become(status: View<unknown>['status'], error?: Error): void {
    this.#status = status;
    this.#error = error;
    this.#view.changed();
  }

  #show(): View<States[K]> {
    const view = { state: this.model.state, status: this.#status, pending: this.model.wishes.length };
    return this.#error ? { ...view, error: this.#error } : view;
  }
}
