/** An in-memory WebSocket. Frames are delivered by the test, and lost when it cuts the connection. */

import type { Socket } from '../../src/ahp/environment.ts';

export class FakeSocket implements Socket {
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  /** Frames to the host. */
  readonly toHost: string[] = [];
  /** Frames to the client. */
  readonly toClient: string[] = [];
  closed = false;

  get readyState(): number {
    return this.closed ? 3 : 1;
  }

  send(text: string): void {
    if (!this.closed) this.toHost.push(text);
  }

  close(): void {
    this.cut();
  }

  /** Drops all frames and closes both ends. */
  cut(): void {
    if (this.closed) return;
    this.closed = true;
    this.toHost.length = 0;
    this.toClient.length = 0;
    this.onclose?.({ code: 1006, reason: '' });
  }

  /** Delivers the next frame to the client. */
  deliver(): boolean {
    const frame = this.closed ? undefined : this.toClient.shift();
    if (frame === undefined) return false;
    this.onmessage?.({ data: frame });
    return true;
  }
}
