/** A world in which nothing happens by itself: time passes and people wake up when a test says so. */

import type { Environment, Socket } from '../../src/ahp/environment.ts';

interface Timer {
  at: number;
  run(): void;
}

export class FakeEnvironment implements Environment {
  isNetworkUp = true;
  randomValue = 0.5;
  /** Whether pictures are drawn by themselves. */
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

  /** Lets time pass. */
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

  /** Lets time pass until something happens. */
  nextTimer(): void {
    const first = Math.min(...[...this.#timers].map((timer) => timer.at));
    if (Number.isFinite(first)) this.advance(Math.max(0, first - this.#now));
  }

  /** Draws a picture; the result says whether anybody wanted one. */
  drawFrame(): boolean {
    const frames = [...this.#frames];
    this.#frames.clear();
    for (const run of frames) run();
    return frames.length > 0;
  }

  wake(): void {
    for (const run of [...this.#wakers]) run();
  }

  /** What is still to come; nothing, if a client has been stopped. */
  get timers(): number {
    return this.#timers.size;
  }

  get wakers(): number {
    return this.#wakers.size;
  }
}

/** Lets everything that waits for promises go on. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
