/** What somebody prefers in this browser. It is kept here and nowhere else. */

export type Theme = 'system' | 'light' | 'dark';

/** A browser that keeps nothing is a browser all the same. */
export function recall(key: string): string | undefined {
  try {
    return localStorage.getItem(`hostler.${key}`) ?? undefined;
  } catch {
    return undefined;
  }
}

export function keep(key: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(`hostler.${key}`);
    else localStorage.setItem(`hostler.${key}`, value);
  } catch {
    // It holds until the page is left.
  }
}

/** One for the page, since keys are pressed wherever one is. */
const keys = $state({ letters: recall('letter-keys') !== 'off' });

/** Whether keys that type a character are shortcuts in the list and in requests. */
export function letterKeys(): boolean {
  return keys.letters;
}

export class Preferences {
  #theme: Theme = $state('system');
  #notify = $state(recall('notify') === 'yes');
  #notifyRefused = $state(recall('notify.refused') === 'yes');
  #folded: ReadonlySet<string> = $state.raw(readSet(recall('folded')));

  constructor() {
    const theme = recall('theme');
    if (theme === 'light' || theme === 'dark') this.#theme = theme;
    paint(this.#theme);
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    keep('theme', theme === 'system' ? undefined : theme);
    paint(theme);
  }

  get letterKeys(): boolean {
    return keys.letters;
  }

  set letterKeys(on: boolean) {
    keys.letters = on;
    keep('letter-keys', on ? undefined : 'off');
  }

  /** Whether the page is dark now, whoever decides that. */
  get isDark(): boolean {
    return this.#theme === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : this.#theme === 'dark';
  }

  /** Whether somebody wants to be notified; the browser may think otherwise. */
  get notify(): boolean {
    return this.#notify;
  }

  set notify(notify: boolean) {
    this.#notify = notify;
    keep('notify', notify ? 'yes' : undefined);
  }

  /** This browser has not let the page notify, although somebody had allowed it. */
  get notifyRefused(): boolean {
    return this.#notifyRefused;
  }

  refuseNotify(): void {
    this.#notifyRefused = true;
    keep('notify.refused', 'yes');
    this.notify = false;
  }

  /** Groups of sessions that are folded. */
  get folded(): ReadonlySet<string> {
    return this.#folded;
  }

  fold(key: string, isFolded: boolean): void {
    const folded = new Set(this.#folded);
    if (isFolded) folded.add(key);
    else folded.delete(key);
    this.#folded = folded;
    keep('folded', folded.size > 0 ? JSON.stringify([...folded]) : undefined);
  }
}

/** The page's colours, and those of the browser around it. */
function paint(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const meta of document.querySelectorAll<HTMLMetaElement>('meta[name="theme-color"]')) {
    const { light = '', dark = '' } = meta.dataset;
    meta.content = (theme === 'system' ? meta.media.includes('dark') : theme === 'dark') ? dark : light;
  }
}

function readSet(text: string | undefined): ReadonlySet<string> {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return new Set(Array.isArray(list) ? list.filter((key) => typeof key === 'string') : []);
  } catch {
    return new Set();
  }
}
