/** Preferences of this browser, in localStorage. They are not synced. */

export type Theme = 'system' | 'light' | 'dark';

/** Reads a stored value; undefined if the browser blocks storage. */
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
    // Applies until the page closes.
  }
}

/** Shared state, since shortcuts work in every view. */
const shortcutState = $state({ letters: readStored('letter-keys') !== 'off' });

/** Whether single letters and digits are shortcuts in the list and in requests. */
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

  /** Whether the page is dark, by preference or system. */
  get isDark(): boolean {
    return this.#theme === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : this.#theme === 'dark';
  }

  /** Whether the user enabled notifications; the browser permission is separate. */
  get notificationsEnabled(): boolean {
    return this.#notificationsEnabled;
  }

  set notificationsEnabled(notify: boolean) {
    this.#notificationsEnabled = notify;
    writeStored('notify', notify ? 'yes' : undefined);
  }

  /** Whether the browser blocked a notification although the permission was granted. */
  get notificationsUnsupported(): boolean {
    return this.#notificationsUnsupported;
  }

  markNotificationsUnsupported(): void {
    this.#notificationsUnsupported = true;
    writeStored('notify.refused', 'yes');
    this.notificationsEnabled = false;
  }

  /** Keys of the collapsed session groups. */
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

/** Applies the theme to the page and the browser's theme color. */
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
