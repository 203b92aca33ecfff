/** Tabs of one browser tell each other what somebody looks at, so that none notifies about what another one shows. */

import type { Uri } from '../ahp/index.ts';

/** What tabs say: `asks` whether somebody sees a session, or that somebody `sees` it. */
type Said = { readonly asks: Uri } | { readonly sees: Uri };

/** How long a tab that shows a session may take to say so, in milliseconds. */
export const PATIENCE = 300;

export class Sightings {
  readonly #line: BroadcastChannel;
  readonly #waiting = new Map<Uri, Set<() => void>>();

  /** `isSeen` tells whether somebody sees a session here; `onseen` hears of those that are seen elsewhere. */
  constructor(isSeen: (session: Uri) => boolean, onseen: (session: Uri) => void, name = 'hostler.sightings') {
    this.#line = new BroadcastChannel(name);
    this.#line.onmessage = ({ data }: MessageEvent<Said>) => {
      if ('asks' in data) {
        if (isSeen(data.asks)) this.tell(data.asks);
        return;
      }
      for (const found of this.#waiting.get(data.sees) ?? []) found();
      onseen(data.sees);
    };
  }

  /** Somebody sees a session here. */
  tell(session: Uri): void {
    this.#line.postMessage({ sees: session } satisfies Said);
  }

  /** Whether another tab shows a session to somebody. A tab that was killed says nothing, so nothing is remembered. */
  isSeenElsewhere(session: Uri): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(session) ?? new Set();
      this.#waiting.set(session, waiting);
      const end = (isSeen: boolean) => {
        clearTimeout(timer);
        waiting.delete(found);
        if (waiting.size === 0) this.#waiting.delete(session);
        resolve(isSeen);
      };
      const found = () => end(true);
      const timer = setTimeout(() => end(false), PATIENCE);
      waiting.add(found);
      this.#line.postMessage({ asks: session } satisfies Said);
    });
  }

  close(): void {
    this.#line.close();
  }
}
