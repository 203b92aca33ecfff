/** The page itself: its host, where somebody is, and what was said to them. */

import { createContext, tick } from 'svelte';
import { browserEnvironment, Host, type Uri } from '../ahp/index.ts';
import { wouldLose } from '../composer/unsaved-guard.ts';
import { SessionActions } from '../sessions/session-actions.svelte.ts';
import { isWaiting } from '../sessions/session-rows.ts';
import { returnToField } from './message-field-focus.ts';
import { subprotocols } from './page-key.ts';
import { Preferences } from './preferences.svelte.ts';
import { format, parse, type Route } from './route.ts';

export interface Notice {
  readonly id: number;
  readonly kind: 'info' | 'error';
  readonly text: string;
}

/** How long a notice stays, in milliseconds; an error stays until somebody has read it. */
const STAYS = 5_000;
const MINUTE = 60_000;

const NARROW = matchMedia('(max-width: 760px)');

/** Marks places that one came to from within the page. */
const INSIDE = { inside: true };

export class Page {
  readonly host: Host;
  readonly preferences = new Preferences();
  /** What can be done to sessions, wherever one is. */
  readonly actions = new SessionActions(this);
  route: Route = $state.raw(parse(location.pathname, location.search));
  notices: readonly Notice[] = $state.raw([]);
  /** On a phone the list is a sheet of its own. */
  listIsOpen = $state(false);
  /** Dialogs that can be opened from anywhere. */
  dialog: 'shortcuts' | 'settings' | 'device' | 'palette' | undefined = $state();
  /** Whether somebody looks at this page. */
  isSeen = $state(true);
  /** Whether the list and the rest are two screens. */
  isNarrow = $state(NARROW.matches);
  /** The time, as exactly as "5m ago" needs it. */
  now = $state(Date.now());
  #notices = 0;

  constructor() {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    this.host = new Host({
      url: () => `${scheme}://${location.host}/ahp`,
      clientInfo: { name: 'hostler-web' },
      environment: browserEnvironment(subprotocols),
    });
  }

  /** Connects, and follows the browser's own way back and forth; the result ends both. */
  start(): () => void {
    const moved = () => {
      this.route = parse(location.pathname, location.search);
      this.listIsOpen = false;
    };
    addEventListener('popstate', moved);
    const resized = () => {
      this.isNarrow = NARROW.matches;
    };
    NARROW.addEventListener('change', resized);
    const clock = setInterval(() => {
      this.now = Date.now();
    }, MINUTE / 2);
    const leaves = (event: BeforeUnloadEvent) => {
      if (wouldLose(() => sessionStorage)) event.preventDefault();
    };
    addEventListener('beforeunload', leaves);
    this.host.start();
    return () => {
      removeEventListener('popstate', moved);
      removeEventListener('beforeunload', leaves);
      NARROW.removeEventListener('change', resized);
      clearInterval(clock);
      this.host.stop();
    };
  }

  /** Goes somewhere; `replace` leaves no way back to where one was. */
  go(route: Route, how: 'push' | 'replace' = 'push'): void {
    const address = format(route);
    if (how === 'replace') history.replaceState(history.state, '', address);
    else if (address !== location.pathname + location.search) history.pushState(INSIDE, '', address);
    this.route = route;
    this.listIsOpen = false;
  }

  /** Goes where one came from, or home if that was not this page. */
  back(): void {
    if (history.state?.inside === true) history.back();
    else this.go({ view: 'home' }, 'replace');
  }

  /** Opens a session. What was pressed for it loses the focus, which belongs to the session's field for messages. */
  openSession(session: Uri, chat?: Uri): void {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.go({ view: 'session', session, ...(chat && { chat }) });
    void tick().then(returnToField);
  }

  /** The session that waits for somebody, the next one if one of them is open. */
  nextWaiting(): Uri | undefined {
    const waiting = this.host.sessions.view.value.items.filter(isWaiting).map(({ resource }) => resource);
    const at = this.route.view === 'session' ? waiting.indexOf(this.route.session) : -1;
    return waiting[(at + 1) % waiting.length];
  }

  /** Closes every dialog, whoever has opened it: each tells its owner. */
  closeDialogs(): void {
    for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
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
