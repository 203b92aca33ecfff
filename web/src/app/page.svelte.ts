/** The page itself: its host, where somebody is, and what was said to them. */

import { createContext, tick } from 'svelte';
import { browserEnvironment, Host, type Uri } from '../ahp/index.ts';
import { hasUnsavedText } from '../composer/unsaved-guard.ts';
import { SessionActions } from '../sessions/session-actions.svelte.ts';
import { isWaiting } from '../sessions/session-rows.ts';
import { focusMessageFieldUnlessTouch } from './message-field-focus.ts';
import { webSocketProtocols } from './page-key.ts';
import { Preferences } from './preferences.svelte.ts';
import { formatRoute, parseRoute, type Route } from './route.ts';

export interface Notice {
  readonly id: number;
  readonly kind: 'info' | 'error';
  readonly text: string;
}

/** How long a notice stays, in milliseconds; an error stays until somebody has read it. */
const NOTICE_DURATION_MS = 5_000;
const MINUTE_MS = 60_000;

const NARROW_QUERY = matchMedia('(max-width: 760px)');

/** Marks places that one came to from within the page. */
const IN_APP_STATE = { inside: true };

export class Page {
  readonly host: Host;
  readonly preferences = new Preferences();
  /** What can be done to sessions, wherever one is. */
  readonly actions = new SessionActions(this);
  route: Route = $state.raw(parseRoute(location.pathname, location.search));
  notices: readonly Notice[] = $state.raw([]);
  /** On a phone the list is a sheet of its own. */
  isListOpen = $state(false);
  /** Dialogs that can be opened from anywhere. */
  dialog: 'shortcuts' | 'settings' | 'device' | 'palette' | undefined = $state();
  /** Whether somebody looks at this page. */
  isVisible = $state(true);
  /** Whether the list and the rest are two screens. */
  isNarrow = $state(NARROW_QUERY.matches);
  /** The time, as exactly as "5m ago" needs it. */
  now = $state(Date.now());
  #noticeCount = 0;

  constructor() {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    this.host = new Host({
      url: () => `${scheme}://${location.host}/ahp`,
      clientInfo: { name: 'hostler-web' },
      environment: browserEnvironment(webSocketProtocols),
    });
  }

  /** Connects, and follows the browser's own way back and forth; the result ends both. */
  start(): () => void {
    const onPopState = () => {
      this.route = parseRoute(location.pathname, location.search);
      this.isListOpen = false;
    };
    addEventListener('popstate', onPopState);
    const onResize = () => {
      this.isNarrow = NARROW_QUERY.matches;
    };
    NARROW_QUERY.addEventListener('change', onResize);
    const clock = setInterval(() => {
      this.now = Date.now();
    }, MINUTE_MS / 2);
    const onBeforeUnload = (event: BeforeUnloadEvent) => {
      if (hasUnsavedText(() => sessionStorage)) event.preventDefault();
    };
    addEventListener('beforeunload', onBeforeUnload);
    this.host.start();
    return () => {
      removeEventListener('popstate', onPopState);
      removeEventListener('beforeunload', onBeforeUnload);
      NARROW_QUERY.removeEventListener('change', onResize);
      clearInterval(clock);
      this.host.stop();
    };
  }

  /** Goes somewhere; `replace` leaves no way back to where one was. */
  navigate(route: Route, mode: 'push' | 'replace' = 'push'): void {
    const address = formatRoute(route);
    if (mode === 'replace') history.replaceState(history.state, '', address);
    else if (address !== location.pathname + location.search) history.pushState(IN_APP_STATE, '', address);
    this.route = route;
    this.isListOpen = false;
  }

  /** Goes where one came from, or home if that was not this page. */
  goBack(): void {
    if (history.state?.inside === true) history.back();
    else this.navigate({ view: 'home' }, 'replace');
  }

  /** Opens a session. What was pressed for it loses the focus, which belongs to the session's field for messages. */
  openSession(session: Uri, chat?: Uri): void {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.navigate({ view: 'session', session, ...(chat && { chat }) });
    void tick().then(focusMessageFieldUnlessTouch);
  }

  /** The session that waits for somebody, the next one if one of them is open. */
  findNextWaiting(): Uri | undefined {
    const waiting = this.host.sessions.view.value.items.filter(isWaiting).map(({ resource }) => resource);
    const at = this.route.view === 'session' ? waiting.indexOf(this.route.session) : -1;
    return waiting[(at + 1) % waiting.length];
  }

  /** Closes every dialog, whoever has opened it: each tells its owner. */
  closeDialogs(): void {
    for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
  }

  /** Tells somebody something in passing. */
  showNotice(text: string, kind: Notice['kind'] = 'info'): void {
    this.#noticeCount += 1;
    const notice = { id: this.#noticeCount, kind, text };
    this.notices = [...this.notices.slice(-3), notice];
    if (kind === 'info') setTimeout(() => this.dismissNotice(notice.id), NOTICE_DURATION_MS);
  }

  dismissNotice(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  /** Waits for a wish, and says why if it fails. Whether it was granted. */
  async attempt(operation: Promise<unknown>): Promise<boolean> {
    try {
      await operation;
      return true;
    } catch (error) {
      this.showNotice(error instanceof Error ? error.message : String(error), 'error');
      return false;
    }
  }
}

export const [getPage, setPage] = createContext<Page>();
