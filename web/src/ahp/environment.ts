/** What the client needs of the world around it. A browser has all of it; tests bring their own. */

export interface Socket {
  /** 1 while it is open, more when it ends or has ended. */
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
  /** Runs something later; the result stops it. */
  after(milliseconds: number, run: () => void): () => void;
  /** Runs something before the next picture is drawn, or soon where none is drawn; the result stops it. */
  onNextFrame(run: () => void): () => void;
  /** Whether there is a network at all, as far as anybody knows. */
  isOnline(): boolean;
  /** Tells when the page is looked at again or the network is back; the result stops it. */
  onWake(run: () => void): () => void;
}

/** A page that nobody sees draws no pictures, but its title and its notifications go on. */
const HIDDEN_PAGE_FRAME_MS = 200;

/** A browser, whose sockets offer these subprotocols; they are asked for anew each time. */
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
      // A page that comes back from the browser's own cache has lost its connection.
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

/** A new name for something. `crypto.randomUUID` is missing where a page came over plain HTTP from another machine. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
