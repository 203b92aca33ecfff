/** Optimistic state: the confirmed state of the host with pending actions applied on top. Knows nothing of connections. */

import type { Reducer } from './reducers/index.ts';
import type { Action, Envelope } from './types/index.ts';

/** A dispatched action without a confirmation. */
export interface PendingAction {
  readonly clientSeq: number;
  readonly action: Action;
}

/**
 * Sequence numbers make repeated envelopes harmless: an envelope that is not newer than the state changes nothing, but
 * still settles its pending action. An action that is sent again after a lost echo is settled by its first envelope,
 * which has an old number.
 */
export class OptimisticState<S, W extends PendingAction> {
  readonly #reduce: Reducer<S>;
  #confirmed: S | undefined;
  #seq = -1;
  #pending: readonly W[] = [];
  #optimistic: S | undefined;
  #stale = false;

  constructor(reduce: Reducer<S>) {
    this.#reduce = reduce;
  }

  /** The confirmed state with all pending actions applied; undefined before the first snapshot. */
  get state(): S | undefined {
    if (this.#stale) {
      this.#stale = false;
      this.#optimistic = this.#confirmed === undefined ? undefined : this.#applyPending(this.#confirmed);
    }
    return this.#optimistic;
  }

  get confirmed(): S | undefined {
    return this.#confirmed;
  }

  /** In dispatch order. */
  get pending(): readonly W[] {
    return this.#pending;
  }

  /** Replaces the confirmed state. Pending actions stay until an envelope settles them. */
  applySnapshot(state: S, fromSeq: number): void {
    this.#confirmed = state;
    this.#seq = fromSeq;
    this.#stale = true;
  }

  addPending(action: W): void {
    this.#pending = [...this.#pending, action];
    this.#stale = true;
  }

  /** Removes and returns the pending actions that match. */
  removePending(matches: (action: W) => boolean): readonly W[] {
    const removed = this.#pending.filter(matches);
    if (removed.length === 0) return removed;
    this.#pending = this.#pending.filter((action) => !removed.includes(action));
    this.#stale = true;
    return removed;
  }

  /** Applies an envelope; returns the pending action that it settles. */
  applyEnvelope(envelope: Envelope, isOwn: boolean): W | undefined {
    const settled = this.settlePending(envelope, isOwn);
    if (this.#confirmed === undefined || envelope.serverSeq <= this.#seq) return settled;
    this.#seq = envelope.serverSeq;
    if (envelope.rejectionReason !== undefined) return settled;
    const next = this.#reduce(this.#confirmed, envelope.action);
    if (next !== this.#confirmed) {
      this.#confirmed = next;
      this.#stale = true;
    }
    return settled;
  }

  /** Removes and returns the pending action that an envelope settles. */
  settlePending(envelope: Envelope, isOwn: boolean): W | undefined {
    const clientSeq = isOwn ? envelope.origin?.clientSeq : undefined;
    return clientSeq === undefined ? undefined : this.removePending((action) => action.clientSeq === clientSeq)[0];
  }

  #applyPending(confirmed: S): S {
    return this.#pending.reduce((state, action) => this.#reduce(state, action.action), confirmed);
  }
}
