/** The page itself: its host, where somebody is, and what was said to them. */

import { createContext } from 'svelte';
import { Host, type Uri } from '../ahp/index.ts';
import { format, parse, type Route } from './route.ts';

export interface Notice {
  readonly id: number;
  readonly kind: 'info' | 'error';
  readonly text: string;
}

/** How long a notice stays, in milliseconds; an error stays until somebody has read it. */
const STAYS = 5_000;

export class Page {
  readonly host: Host;
  route: Route = $state.raw(parse(location.pathname, location.search));
  notices: readonly Notice[] = $state.raw([]);
  /** On a phone the list is a sheet of its own. */
  listIsOpen = $state(false);
  /** Dialogs that can be opened from anywhere. */
  dialog: 'shortcuts' | 'settings' | undefined = $state();
  #notices = 0;

  constructor() {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    this.host = new Host({ url: () => `${scheme}://${location.host}/ahp`, clientInfo: { name: 'hostler-web' } });
  }

  /** Connects, and follows the browser's own way back and forth; the result ends both. */
  start(): () => void {
    const moved = () => {
      this.route = parse(location.pathname, location.search);
      this.listIsOpen = false;
    };
    addEventListener('popstate', moved);
    this.host.start();
    return () => {
      removeEventListener('popstate', moved);
      this.host.stop();
    };
  }

  /** Goes somewhere; `replace` leaves no way back to where one was. */
  go(route: Route, how: 'push' | 'replace' = 'push'): void {
    const address = format(route);
    if (how === 'replace') history.replaceState(null, '', address);
    else if (address !== location.pathname + location.search) history.pushState(null, '', address);
    this.route = route;
    this.listIsOpen = false;
  }

  openSession(session: Uri, chat?: Uri): void {
    this.go({ view: 'session', session, ...(chat && { chat }) });
  }

  /** Tells somebody something in passing. */
  say(text: string, kind: Notice['kind'] = 'info'): void {
    this.#notices += 1;
    const notice = { id: this.#notices, kind, text };
    this.notices = [...this.notices.slice(-3), notice];
    if (kind === 'info') setTimeout(() => this.unsay(notice.id), STAYS);
  }

  unsay(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  /** Waits for a wish, and says why if it fails. Whether it was granted. */
  async attempt(wish: Promise<unknown>): Promise<boolean> {
    try {
      await wish;
      return true;
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), 'error');
      return false;
    }
  }
}

export const [getPage, setPage] = createContext<Page>();
