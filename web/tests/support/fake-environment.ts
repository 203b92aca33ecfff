/** A fake environment: time, frames and wake-ups advance only on request. */

import type { Environment, Socket } from '../../src/ahp/environment.ts';

interface Timer {
  at: number;
  run(): void;
}

export class FakeEnvironment implements Environment {
  isNetworkUp = true;
  randomValue = 0.5;
  /** Whether frames are drawn automatically. */
  drawsFrames = true;
  #now = 1_000_000;
  readonly #timers = new Set<Timer>();
  readonly #frames = new Set<() => void>();
  readonly #wakers = new Set<() => void>();
  readonly #open: (url: string) => Socket;

  constructor(open: (url: string) => Socket) {
    this.#open = open;
  }

  connect(url: string): Socket {
    return this.#open(url);
  }

  now(): number {
    return this.#now;
  }

  random(): number {
    return this.randomValue;
  }

  after(milliseconds: number, run: () => void): () => void {
    const timer = { at: this.#now + milliseconds, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  onNextFrame(run: () => void): () => void {
    this.#frames.add(run);
    if (this.drawsFrames) setImmediate(() => this.drawFrame());
    return () => this.#frames.delete(run);
  }

  isOnline(): boolean {
    return this.isNetworkUp;
  }

  onWake(run: () => void): () => void {
    this.#wakers.add(run);
    return () => this.#wakers.delete(run);
  }

  /** Advances the time. */
  advance(milliseconds: number): void {
    const until = this.#now + milliseconds;
    for (;;) {
      const [next] = [...this.#timers].filter((timer) => timer.at <= until).sort((one, other) => one.at - other.at);
      if (!next) break;
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next);
      next.run();
    }
    this.#now = until;
  }

  /** Advances to the next timer. */
  nextTimer(): void {
    const first = Math.min(...[...this.#timers].map((timer) => timer.at));
    if (Number.isFinite(first)) this.advance(Math.max(0, first - this.#now));
  }

  /** Draws a frame; returns whether a callback ran. */
  drawFrame(): boolean {
    const frames = [...this.#frames];
    this.#frames.clear();
    for (const run of frames) run();
    return frames.length > 0;
  }

  wake(): void {
    for (const run of [...this.#wakers]) run();
  }

  /** Number of pending timers; zero after a client stopped. */
  get timers(): number {
    return this.#timers.size;
  }

  get wakers(): number {
    return this.#wakers.size;
  }
}

/** Lets pending promises settle. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
