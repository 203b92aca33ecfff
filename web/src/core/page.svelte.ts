/** The page: its host, route, notices and dialogs. Components reach it with `getPage`. */

import { createContext, tick } from 'svelte';
import { browserEnvironment, Host, type Uri } from '../ahp/index.ts';
import { focusMessageFieldUnlessTouch } from './message-field-focus.ts';
import { webSocketProtocols } from './page-key.ts';
import { Preferences } from './preferences.svelte.ts';
import { formatRoute, parseRoute, type Route } from './route.ts';
import { SessionActions } from './session-actions.svelte.ts';
import { isWaiting } from './session-summary.ts';

export interface Notice {
  readonly id: number;
  readonly kind: 'info' | 'error';
  readonly text: string;
}

/** Duration of an info notice; errors stay until dismissed. */
const NOTICE_DURATION_MS = 5_000;
const MINUTE_MS = 60_000;

const NARROW_QUERY = matchMedia('(max-width: 760px)');

/** History state of entries created by this page. */
const IN_APP_STATE = { inside: true };

export class Page {
  readonly host: Host;
  readonly preferences = new Preferences();
  /** Actions on sessions from any view. */
  readonly actions = new SessionActions(this);
  route: Route = $state.raw(parseRoute(location.pathname, location.search));
  notices: readonly Notice[] = $state.raw([]);
  /** Whether the list is open on a phone. */
  isListOpen = $state(false);
  /** The open global dialog. */
  dialog: 'shortcuts' | 'settings' | 'device' | 'palette' | undefined = $state();
  /** Whether the page is visible and focused. */
  isVisible = $state(true);
  /** Whether the list and the main pane are separate screens. */
  isNarrow = $state(NARROW_QUERY.matches);
  /** The current time, precise enough for "5m". */
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

  /** Connects and follows the browser history; the result undoes both. */
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
    this.host.start();
    return () => {
      removeEventListener('popstate', onPopState);
      NARROW_QUERY.removeEventListener('change', onResize);
      clearInterval(clock);
      this.host.stop();
    };
  }

  /** Navigates; `replace` adds no history entry. */
  navigate(route: Route, mode: 'push' | 'replace' = 'push'): void {
    const address = formatRoute(route);
    if (mode === 'replace') history.replaceState(history.state, '', address);
    else if (address !== location.pathname + location.search) history.pushState(IN_APP_STATE, '', address);
    this.route = route;
    this.isListOpen = false;
  }

  /** Goes back, or home if the previous entry is not of this page. */
  goBack(): void {
    if (history.state?.inside === true) history.back();
    else this.navigate({ view: 'home' }, 'replace');
  }

  /** Opens a session and moves the focus to its message field. */
  openSession(session: Uri, chat?: Uri): void {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.navigate({ view: 'session', session, ...(chat && { chat }) });
    void tick().then(focusMessageFieldUnlessTouch);
  }

  /** The next waiting session after the open one. */
  findNextWaiting(): Uri | undefined {
    const waiting = this.host.sessions.view.value.items.filter(isWaiting).map(({ resource }) => resource);
    const at = this.route.view === 'session' ? waiting.indexOf(this.route.session) : -1;
    return waiting[(at + 1) % waiting.length];
  }

  /** Closes every open dialog; each notifies its owner. */
  closeDialogs(): void {
    for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
  }

  /** Shows a notice. */
  showNotice(text: string, kind: Notice['kind'] = 'info'): void {
    this.#noticeCount += 1;
    const notice = { id: this.#noticeCount, kind, text };
    this.notices = [...this.notices.slice(-3), notice];
    if (kind === 'info') setTimeout(() => this.dismissNotice(notice.id), NOTICE_DURATION_MS);
  }

  dismissNotice(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  /** Awaits an operation and shows its error as a notice. Returns whether it succeeded. */
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
