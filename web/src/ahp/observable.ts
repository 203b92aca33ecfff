/** Values that change, for whoever shows them. They follow the contract of Svelte's stores, without Svelte. */

import type { Environment } from './environment.ts';

export interface Readable<T> {
  /** Calls at once with the value, and again whenever it has changed; the result stops it. */
  subscribe(run: (value: T) => void): () => void;
  readonly value: T;
}

/** Listeners of something that happens. One that throws does not keep the others from hearing it. */
export class Listeners<T> {
  readonly #all = new Set<(value: T) => void>();

  add(run: (value: T) => void): () => void {
    // The same function may listen twice.
    const own = (value: T) => run(value);
    this.#all.add(own);
    return () => this.#all.delete(own);
  }

  notify(value: T): void {
    for (const run of [...this.#all]) {
      try {
        run(value);
      } catch (error) {
        // Reported as any other uncaught error, and not in the middle of what the client is doing.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  get size(): number {
    return this.#all.size;
  }
}

/** A value that tells at once. */
export class WritableValue<T> implements Readable<T> {
  #value: T;
  readonly #listeners = new Listeners<T>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (value === this.#value) return;
    this.#value = value;
    this.#listeners.notify(value);
  }

  subscribe(run: (value: T) => void): () => void {
    const stop = this.#listeners.add(run);
    run(this.#value);
    return stop;
  }
}

/** Tells all values that have changed together, once per frame. */
export class UpdateBatch {
  readonly #environment: Environment;
  readonly #pending = new Set<() => void>();
  #stop: (() => void) | undefined;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  add(notify: () => void): void {
    this.#pending.add(notify);
    this.#stop ??= this.#environment.onNextFrame(() => this.flush());
  }

  /** Tells now. */
  flush(): void {
    this.#stop?.();
    this.#stop = undefined;
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const notify of pending) notify();
  }
}

/**
 * A value that is computed when somebody looks, and told at most once per frame. 200 changes in a second are 200 calls of
 * `changed` and at most as many computations as there are frames.
 */
export class BatchedValue<T> implements Readable<T> {
  readonly #compute: () => T;
  readonly #batch: UpdateBatch;
  readonly #listeners = new Listeners<T>();
  readonly #scheduledNotify = () => this.#notify();
  #value: T;
  #lastNotified: T;
  #stale = false;

  constructor(batch: UpdateBatch, compute: () => T) {
    this.#batch = batch;
    this.#compute = compute;
    this.#value = compute();
    this.#lastNotified = this.#value;
  }

  get value(): T {
    if (this.#stale) {
      this.#stale = false;
      this.#value = this.#compute();
    }
    return this.#value;
  }

  /** Something that the value is made of has changed. */
  invalidate(): void {
    this.#stale = true;
    this.#batch.add(this.#scheduledNotify);
  }

  subscribe(run: (value: T) => void): () => void {
    const stop = this.#listeners.add(run);
    run(this.value);
    return stop;
  }

  #notify(): void {
    const { value } = this;
    if (value === this.#lastNotified) return;
    this.#lastNotified = value;
    this.#listeners.notify(value);
  }
}
