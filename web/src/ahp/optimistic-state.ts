/** A state as the host confirmed it, and wishes on top of it that the host has not answered yet. */

import type { Reducer } from './reducers/index.ts';
import type { Action, Envelope } from './types/index.ts';

/** An action that was dispatched and not answered. */
export interface Wish {
  readonly clientSeq: number;
  readonly action: Action;
}

/**
 * Knows nothing of connections. Numbers make it safe to be told the same thing twice: an envelope that is not newer than the
 * state moves nothing, but it still answers a wish. A wish that is repeated after a lost echo is answered by its first
 * envelope, whose number is an old one.
 */
export class Optimistic<S, W extends Wish> {
  readonly #reduce: Reducer<S>;
  #confirmed: S | undefined;
  #seq = -1;
  #wishes: readonly W[] = [];
  #shown: S | undefined;
  #stale = false;

  constructor(reduce: Reducer<S>) {
    this.#reduce = reduce;
  }

  /** The state with all wishes granted. Without a snapshot there is none. */
  get state(): S | undefined {
    if (this.#stale) {
      this.#stale = false;
      this.#shown = this.#confirmed === undefined ? undefined : this.#granted(this.#confirmed);
    }
    return this.#shown;
  }

  get confirmed(): S | undefined {
    return this.#confirmed;
  }

  /** In the order in which they were made. */
  get wishes(): readonly W[] {
    return this.#wishes;
  }

  /** The host's state as a whole. Wishes stay: whether they are in it, the host has yet to say. */
  reset(state: S, fromSeq: number): void {
    this.#confirmed = state;
    this.#seq = fromSeq;
    this.#stale = true;
  }

  wish(wish: W): void {
    this.#wishes = [...this.#wishes, wish];
    this.#stale = true;
  }

  /** Takes wishes back, whatever became of them. */
  drop(fits: (wish: W) => boolean): readonly W[] {
    const dropped = this.#wishes.filter(fits);
    if (dropped.length === 0) return dropped;
    this.#wishes = this.#wishes.filter((wish) => !dropped.includes(wish));
    this.#stale = true;
    return dropped;
  }

  /** Takes an envelope; the result is the wish that it answers. */
  take(envelope: Envelope, mine: boolean): W | undefined {
    const answered = this.answer(envelope, mine);
    if (this.#confirmed === undefined || envelope.serverSeq <= this.#seq) return answered;
    this.#seq = envelope.serverSeq;
    if (envelope.rejectionReason !== undefined) return answered;
    const next = this.#reduce(this.#confirmed, envelope.action);
    if (next !== this.#confirmed) {
      this.#confirmed = next;
      this.#stale = true;
    }
    return answered;
  }

  /** The wish that an envelope answers, which is no wish any more. */
  answer(envelope: Envelope, mine: boolean): W | undefined {
    const clientSeq = mine ? envelope.origin?.clientSeq : undefined;
    return clientSeq === undefined ? undefined : this.drop((wish) => wish.clientSeq === clientSeq)[0];
  }

  #granted(confirmed: S): S {
    return this.#wishes.reduce((state, wish) => this.#reduce(state, wish.action), confirmed);
  }
}
