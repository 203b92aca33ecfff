/** The environment of the client: sockets, clock, timers and network state. Tests provide fakes. */

export interface Socket {
  /** 1 while open, greater while closing or closed. */
  readonly readyState: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

export interface Environment {
  /** Opens a WebSocket. */
  connect(url: string): Socket;
  /** Milliseconds. */
  now(): number;
  /** From 0 to 1. */
  random(): number;
  /** Runs a callback later; the result cancels it. */
  after(milliseconds: number, run: () => void): () => void;
  /** Runs a callback before the next frame, or after a short delay on a hidden page; the result cancels it. */
  onNextFrame(run: () => void): () => void;
  /** Whether the browser reports a network. */
  isOnline(): boolean;
  /** Notifies when the page becomes visible or the network returns; the result unsubscribes. */
  onWake(run: () => void): () => void;
}

/** A hidden page draws no frames, but its title and notifications still update. */
const HIDDEN_PAGE_FRAME_MS = 200;

/** The environment of a browser. The subprotocols are read for each socket. */
export function browserEnvironment(subprotocols: () => string[] = () => []): Environment {
  return {
    connect: (url) => new WebSocket(url, subprotocols()) as unknown as Socket,
    now: () => Date.now(),
    random: () => Math.random(),
    after: (milliseconds, run) => {
      const timer = setTimeout(run, milliseconds);
      return () => clearTimeout(timer);
    },
    onNextFrame: (run) => {
      const stop = () => {
        cancelAnimationFrame(frameRequest);
        clearTimeout(timer);
      };
      const once = () => {
        stop();
        run();
      };
      const frameRequest = requestAnimationFrame(once);
      const timer = setTimeout(once, HIDDEN_PAGE_FRAME_MS);
      return stop;
    },
    isOnline: () => navigator.onLine,
    onWake: (run) => {
      const runIfVisible = () => {
        if (document.visibilityState === 'visible') run();
      };
      // A page restored from the back/forward cache has lost its connection.
      window.addEventListener('online', run);
      window.addEventListener('pageshow', run);
      document.addEventListener('visibilitychange', runIfVisible);
      return () => {
        window.removeEventListener('online', run);
        window.removeEventListener('pageshow', run);
        document.removeEventListener('visibilitychange', runIfVisible);
      };
    },
  };
}

/** Generates a UUID. `crypto.randomUUID` is missing on insecure origins. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
