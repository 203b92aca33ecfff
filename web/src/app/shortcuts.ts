/** The keys of the page: one registry for all of its parts, which is also what the sheet of shortcuts shows. */

/** Where a shortcut stands in the sheet. */
export type ShortcutGroup = 'Go' | 'Sessions' | 'Chat' | 'Composer' | 'Help';

export interface Shortcut {
  /**
   * One key or several ways: `j`, `?`, `Enter`, `Shift+Enter`, `Mod+K` (Ctrl, or Cmd on a Mac). Keys behind each other are
   * separated by a space: `g i`.
   */
  readonly keys: string | readonly string[];
  readonly label: string;
  readonly group: ShortcutGroup;
  readonly run: (event: KeyboardEvent) => void;
  /** Whether it means something now. Of several that do, the one that was added last counts. */
  readonly when?: () => boolean;
  /** Also while somebody types in a field. With `Mod` that goes without saying. */
  readonly inFields?: boolean;
}

/** What is needed to know of a key that was pressed. */
export type Pressed = Pick<KeyboardEvent, 'key' | 'code' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>;

/** How long the second key of two may take, in milliseconds. */
const PATIENCE = 1_200;

export class Shortcuts {
  #all: readonly Shortcut[] = [];
  /** The first key of two, and until when it counts. */
  #begun: { readonly stroke: string; readonly until: number } | undefined;
  readonly #now: () => number;

  constructor(now: () => number = () => Date.now()) {
    this.#now = now;
  }

  /** Adds one; the result takes it away again. */
  add(shortcut: Shortcut): () => void {
    this.#all = [...this.#all, shortcut];
    return () => {
      this.#all = this.#all.filter((other) => other !== shortcut);
    };
  }

  /** All that there are, whether they mean something now or not. */
  get all(): readonly Shortcut[] {
    return this.#all;
  }

  /** The one that a key leads to, if any. */
  find(pressed: Pressed, place: 'page' | 'field' | 'control' = 'page'): Shortcut | undefined {
    const stroke = strokeOf(pressed);
    const begun = this.#begun && this.#begun.until > this.#now() ? this.#begun.stroke : undefined;
    this.#begun = undefined;
    const may = this.#all.filter((shortcut) => means(shortcut, stroke, place)).reverse();
    const second = begun && may.find((shortcut) => waysOf(shortcut).includes(`${begun} ${stroke}`));
    if (second) return second;
    const found = may.find((shortcut) => waysOf(shortcut).includes(stroke));
    if (!found && may.some((shortcut) => waysOf(shortcut).some((way) => way.startsWith(`${stroke} `))))
      this.#begun = { stroke, until: this.#now() + PATIENCE };
    return found;
  }

  /** Does what a key is for. Whoever has handled it already keeps it. */
  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || MODIFIERS.has(event.key)) return;
    // A dialog is a world of its own, and the browser closes it with Escape.
    if (document.querySelector('dialog[open]')) return;
    const found = this.find(event, placeOf(event.target));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  }

  /** Listens to a window; the result stops it. */
  listen(window: Window): () => void {
    const heard = (event: KeyboardEvent) => this.handle(event);
    window.addEventListener('keydown', heard);
    return () => window.removeEventListener('keydown', heard);
  }
}

/** The page's own. */
export const shortcuts = new Shortcuts();

const MODIFIERS = new Set(['Shift', 'Control', 'Alt', 'Meta', 'AltGraph', 'CapsLock']);

/** A pressed key as it is written in a shortcut. */
export function strokeOf({ key, code, ctrlKey, metaKey, altKey, shiftKey }: Pressed): string {
  // Keyboards of other scripts: the key that lies there.
  const latin = key.length === 1 && key > '~' ? (/^Key([A-Z])$/.exec(code)?.[1]?.toLowerCase() ?? key) : key;
  const isLetter = /^[a-z]$/i.test(latin);
  const name = latin === ' ' ? 'Space' : isLetter ? latin.toLowerCase() : latin;
  // With both of them a character is typed on many keyboards.
  const mod = (ctrlKey || metaKey) && !(ctrlKey && altKey);
  // `?` is typed with Shift here and without it elsewhere.
  const shift = shiftKey && (isLetter || name.length > 1);
  return [mod && 'mod', altKey && !ctrlKey && 'alt', shift && 'shift', name].filter(Boolean).join('+');
}

/** How a shortcut is written on a key cap, key by key. */
export function capsOf(keys: string, isMac: boolean): readonly string[] {
  const caps: Record<string, string> = isMac
    ? { Mod: '⌘', Shift: '⇧', Alt: '⌥' }
    : { Mod: 'Ctrl', Shift: 'Shift', Alt: 'Alt' };
  const names: Record<string, string> = {
    ArrowUp: '↑',
    ArrowDown: '↓',
    ArrowLeft: '←',
    ArrowRight: '→',
    Escape: 'Esc',
    Enter: '↵',
  };
  return keys
    .split(' ')
    .flatMap((stroke) => strokeParts(stroke).map((part) => caps[part] ?? names[part] ?? part.toUpperCase()));
}

function strokeParts(stroke: string): readonly string[] {
  // `Mod++` is the plus key.
  return stroke === '+' ? ['+'] : stroke.split(/\+(?=.)/);
}

function waysOf({ keys }: Shortcut): readonly string[] {
  return (typeof keys === 'string' ? [keys] : keys).map((way) => way.split(' ').map(normal).join(' '));
}

function normal(stroke: string): string {
  const parts = strokeParts(stroke);
  const key = parts.at(-1) ?? '';
  const modifiers = parts.slice(0, -1).map((part) => part.toLowerCase());
  const ordered = ['mod', 'alt', 'shift'].filter((modifier) => modifiers.includes(modifier));
  return [...ordered, key.length === 1 ? key.toLowerCase() : key].join('+');
}

function means(shortcut: Shortcut, stroke: string, place: 'page' | 'field' | 'control'): boolean {
  if (place === 'field' && !shortcut.inFields && !stroke.startsWith('mod+')) return false;
  // A button that is focused is pressed by these.
  if (place === 'control' && (stroke === 'Enter' || stroke === 'Space')) return false;
  return shortcut.when?.() ?? true;
}

function placeOf(target: EventTarget | null): 'page' | 'field' | 'control' {
  if (!(target instanceof HTMLElement)) return 'page';
  const types = ['button', 'checkbox', 'radio', 'range', 'submit', 'reset', 'file', 'color'];
  const isField = target.matches('textarea, select, [contenteditable=""], [contenteditable="true"]');
  if (isField || (target instanceof HTMLInputElement && !types.includes(target.type))) return 'field';
  return target.closest('a, button, summary, input, [role="menuitem"], [role="option"]') ? 'control' : 'page';
}
