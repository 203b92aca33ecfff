/** What somebody prefers in this browser. It is kept here and nowhere else. */

export type Theme = 'system' | 'light' | 'dark';

/** A browser that keeps nothing is a browser all the same. */
export function readStored(key: string): string | undefined {
  try {
    return localStorage.getItem(`hostler.${key}`) ?? undefined;
  } catch {
    return undefined;
  }
}

export function writeStored(key: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(`hostler.${key}`);
    else localStorage.setItem(`hostler.${key}`, value);
  } catch {
    // It holds until the page is left.
  }
}

/** One for the page, since keys are pressed wherever one is. */
const shortcutState = $state({ letters: readStored('letter-keys') !== 'off' });

/** Whether keys that type a character are shortcuts in the list and in requests. */
export function areLetterKeysEnabled(): boolean {
  return shortcutState.letters;
}

export class Preferences {
  #theme: Theme = $state('system');
  #notificationsEnabled = $state(readStored('notify') === 'yes');
  #notificationsUnsupported = $state(readStored('notify.refused') === 'yes');
  #collapsedGroups: ReadonlySet<string> = $state.raw(parseStringSet(readStored('folded')));

  constructor() {
    const theme = readStored('theme');
    if (theme === 'light' || theme === 'dark') this.#theme = theme;
    applyTheme(this.#theme);
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    writeStored('theme', theme === 'system' ? undefined : theme);
    applyTheme(theme);
  }

  get letterKeys(): boolean {
    return shortcutState.letters;
  }

  set letterKeys(on: boolean) {
    shortcutState.letters = on;
    writeStored('letter-keys', on ? undefined : 'off');
  }

  /** Whether the page is dark now, whoever decides that. */
  get isDark(): boolean {
    return this.#theme === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : this.#theme === 'dark';
  }

  /** Whether somebody wants to be notified; the browser may think otherwise. */
  get notificationsEnabled(): boolean {
    return this.#notificationsEnabled;
  }

  set notificationsEnabled(notify: boolean) {
    this.#notificationsEnabled = notify;
    writeStored('notify', notify ? 'yes' : undefined);
  }

  /** This browser has not let the page notify, although somebody had allowed it. */
  get notificationsUnsupported(): boolean {
    return this.#notificationsUnsupported;
  }

  markNotificationsUnsupported(): void {
    this.#notificationsUnsupported = true;
    writeStored('notify.refused', 'yes');
    this.notificationsEnabled = false;
  }

  /** Groups of sessions that are folded. */
  get collapsedGroups(): ReadonlySet<string> {
    return this.#collapsedGroups;
  }

  setCollapsed(key: string, isCollapsed: boolean): void {
    const collapsed = new Set(this.#collapsedGroups);
    if (isCollapsed) collapsed.add(key);
    else collapsed.delete(key);
    this.#collapsedGroups = collapsed;
    writeStored('folded', collapsed.size > 0 ? JSON.stringify([...collapsed]) : undefined);
  }
}

/** The page's colours, and those of the browser around it. */
function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const meta of document.querySelectorAll<HTMLMetaElement>('meta[name="theme-color"]')) {
    const { light = '', dark = '' } = meta.dataset;
    meta.content = (theme === 'system' ? meta.media.includes('dark') : theme === 'dark') ? dark : light;
  }
}

function parseStringSet(text: string | undefined): ReadonlySet<string> {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return new Set(Array.isArray(list) ? list.filter((key) => typeof key === 'string') : []);
  } catch {
    return new Set();
  }
}
