/** Notifies tabs of one browser which session is visible, so that no tab notifies about a session that another one shows. */

import type { Uri } from '../ahp/index.ts';

/** Messages between tabs: `asks` whether a session is visible, `sees` that it is. */
type TabMessage = { readonly asks: Uri } | { readonly sees: Uri };

/** Maximum time for another tab to reply. */
export const REPLY_TIMEOUT_MS = 300;

export class TabVisibility {
  readonly #channel: BroadcastChannel;
  readonly #waiting = new Map<Uri, Set<() => void>>();

  /** `isVisible` returns whether this tab shows a session; `onVisibleElsewhere` is called for sessions in other tabs. */
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

  /** Announces that this tab shows a session. */
  announceVisible(session: Uri): void {
    this.#channel.postMessage({ sees: session } satisfies TabMessage);
  }

  /** Whether another tab shows a session. Nothing is cached, since a killed tab cannot retract its announcement. */
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
