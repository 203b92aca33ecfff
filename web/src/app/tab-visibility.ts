/** Tabs of one browser tell each other what somebody looks at, so that none notifies about what another one shows. */

import type { Uri } from '../ahp/index.ts';

/** What tabs say: `asks` whether somebody sees a session, or that somebody `sees` it. */
type TabMessage = { readonly asks: Uri } | { readonly sees: Uri };

/** How long a tab that shows a session may take to say so, in milliseconds. */
export const REPLY_TIMEOUT_MS = 300;

export class TabVisibility {
  readonly #channel: BroadcastChannel;
  readonly #waiting = new Map<Uri, Set<() => void>>();

  /** `isSeen` tells whether somebody sees a session here; `onseen` hears of those that are seen elsewhere. */
  constructor(
    isVisible: (session: Uri) => boolean,
    onVisibleElsewhere: (session: Uri) => void,
    name = 'hostler.tab-visibility',
  ) {
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }: MessageEvent<TabMessage>) => {
      if ('asks' in data) {
        if (isVisible(data.asks)) this.announceVisible(data.asks);
        return;
      }
      for (const confirm of this.#waiting.get(data.sees) ?? []) confirm();
      onVisibleElsewhere(data.sees);
    };
  }

  /** Somebody sees a session here. */
  announceVisible(session: Uri): void {
    this.#channel.postMessage({ sees: session } satisfies TabMessage);
  }

  /** Whether another tab shows a session to somebody. A tab that was killed says nothing, so nothing is remembered. */
  isVisibleInOtherTab(session: Uri): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(session) ?? new Set();
      this.#waiting.set(session, waiting);
      const settle = (isVisible: boolean) => {
        clearTimeout(timer);
        waiting.delete(confirm);
        if (waiting.size === 0) this.#waiting.delete(session);
        resolve(isVisible);
      };
      const confirm = () => settle(true);
      const timer = setTimeout(() => settle(false), REPLY_TIMEOUT_MS);
      waiting.add(confirm);
      this.#channel.postMessage({ asks: session } satisfies TabMessage);
    });
  }

  close(): void {
    this.#channel.close();
  }
}
