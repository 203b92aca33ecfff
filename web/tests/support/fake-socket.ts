/** WebSockets in memory. Frames wait on the way until a test delivers them, and are lost when it cuts the cable. */

import type { Socket } from '../../src/ahp/environment.ts';

export class FakeSocket implements Socket {
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  /** On their way to the host. */
  readonly toHost: string[] = [];
  /** On their way to the client. */
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

  /** Everything on the way is lost; both ends notice. */
  cut(): void {
    if (this.closed) return;
    this.closed = true;
    this.toHost.length = 0;
    this.toClient.length = 0;
    this.onclose?.({ code: 1006, reason: '' });
  }

  /** The client gets the next frame. */
  deliver(): boolean {
    const frame = this.closed ? undefined : this.toClient.shift();
    if (frame === undefined) return false;
    this.onmessage?.({ data: frame });
    return true;
  }
}
