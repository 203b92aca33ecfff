/** A state as the host confirmed it, and wishes on top of it that the host has not answered yet. */

import type { Reducer } from './reducers/index.ts';
import type { Action, Envelope } from './types/index.ts';

/** An action that was dispatched and not answered. */
export interface PendingAction {
  readonly clientSeq: number;
  readonly action: Action;
}

/**
 * Knows nothing of connections. Numbers make it safe to be told the same thing twice: an envelope that is not newer than the
 * state moves nothing, but it still answers a wish. A wish that is repeated after a lost echo is answered by its first
 * envelope, whose number is an old one.
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

  /** The state with all wishes granted. Without a snapshot there is none. */
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

  /** In the order in which they were made. */
  get pending(): readonly W[] {
    return this.#pending;
  }

  /** The host's state as a whole. Wishes stay: whether they are in it, the host has yet to say. */
  applySnapshot(state: S, fromSeq: number): void {
    this.#confirmed = state;
    this.#seq = fromSeq;
    this.#stale = true;
  }

  addPending(action: W): void {
    this.#pending = [...this.#pending, action];
    this.#stale = true;
  }

  /** Takes wishes back, whatever became of them. */
  removePending(matches: (action: W) => boolean): readonly W[] {
    const removed = this.#pending.filter(matches);
    if (removed.length === 0) return removed;
    this.#pending = this.#pending.filter((action) => !removed.includes(action));
    this.#stale = true;
    return removed;
  }

  /** Takes an envelope; the result is the wish that it answers. */
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

  /** The wish that an envelope answers, which is no wish any more. */
  settlePending(envelope: Envelope, isOwn: boolean): W | undefined {
    const clientSeq = isOwn ? envelope.origin?.clientSeq : undefined;
    return clientSeq === undefined ? undefined : this.removePending((action) => action.clientSeq === clientSeq)[0];
  }

  #applyPending(confirmed: S): S {
    return this.#pending.reduce((state, action) => this.#reduce(state, action.action), confirmed);
  }
}
