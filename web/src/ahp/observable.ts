/** Observable values with the contract of Svelte stores, without Svelte. */

import type { Environment } from './environment.ts';

export interface Readable<T> {
  /** Calls back with the value at once and after each change; the result unsubscribes. */
  subscribe(run: (value: T) => void): () => void;
  readonly value: T;
}

/** A set of listeners. A listener that throws does not affect the others. */
export class Listeners<T> {
  readonly #all = new Set<(value: T) => void>();

  add(run: (value: T) => void): () => void {
    // The same function may be added twice.
    const own = (value: T) => run(value);
    this.#all.add(own);
    return () => this.#all.delete(own);
  }

  notify(value: T): void {
    for (const run of [...this.#all]) {
      try {
        run(value);
      } catch (error) {
        // Reports the error as uncaught, outside the current call.
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

/** A value that notifies synchronously. */
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

/** Notifies all changed values once per frame. */
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

  /** Notifies now. */
  flush(): void {
    this.#stop?.();
    this.#stop = undefined;
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const notify of pending) notify();
  }
}

/** A lazily computed value that notifies at most once per frame, regardless of how often it is invalidated. */
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

  /** Marks the value as outdated. */
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
