/**
 * Registry of the shortcuts, their scopes and key notation. The dispatcher, the hints and the shortcuts dialog read it;
 * it does not know them. Single characters work only while their scope contains the focus.
 */

import { strings } from '../strings.ts';

/** Where a shortcut works: anywhere, or while this part of the page contains the focus. */
export type ShortcutScope = 'global' | 'composer' | 'card' | 'list' | 'queue';

export interface Shortcut {
  /**
   * One stroke or alternatives: `j`, `Enter`, `Shift+Enter`, `Mod+K` (Ctrl, or Cmd on a Mac). A key pressed twice is
   * written twice, with a space.
   */
  readonly keys: string | readonly string[];
  readonly label: string;
  readonly scope: ShortcutScope;
  /** Key cap label that replaces the list of strokes. */
  readonly caps?: string;
}

export const SHORTCUTS = {
  palette: { scope: 'global', keys: 'Mod+K', label: strings.shortcuts.labels.palette },
  newSession: { scope: 'global', keys: 'Mod+Shift+O', label: strings.common.newSession },
  findSession: { scope: 'global', keys: 'Mod+Shift+L', label: strings.shortcuts.labels.findSession },
  search: { scope: 'global', keys: 'Mod+Shift+F', label: strings.common.searchMessages },
  nextWaiting: { scope: 'global', keys: 'Mod+J', label: strings.shortcuts.labels.nextWaiting },
  approve: { scope: 'global', keys: 'Mod+Shift+Enter', label: strings.shortcuts.labels.approve },
  deny: { scope: 'global', keys: 'Mod+Shift+X', label: strings.shortcuts.labels.deny },
  previousMessage: { scope: 'global', keys: 'Alt+ArrowUp', label: strings.shortcuts.labels.previousMessage },
  nextMessage: { scope: 'global', keys: 'Alt+ArrowDown', label: strings.shortcuts.labels.nextMessage },
  latest: { scope: 'global', keys: 'Alt+End', label: strings.shortcuts.labels.latest },
  toField: { scope: 'global', keys: 'Escape', label: strings.shortcuts.labels.toField },
  help: { scope: 'global', keys: 'Mod+/', label: strings.common.keyboardShortcuts },
  settings: { scope: 'global', keys: 'Mod+,', label: strings.common.settings },

  send: { scope: 'composer', keys: 'Enter', label: strings.shortcuts.labels.send },
  steer: { scope: 'composer', keys: 'Mod+Enter', label: strings.shortcuts.labels.steer },
  newLine: { scope: 'composer', keys: 'Shift+Enter', label: strings.shortcuts.labels.newLine },
  older: { scope: 'composer', keys: 'ArrowUp', label: strings.shortcuts.labels.older },
  stop: { scope: 'composer', keys: 'Escape Escape', label: strings.shortcuts.labels.stop },

  option: {
    scope: 'card',
    keys: ['1', '2', '3', '4', '5', '6', '7', '8', '9'],
    caps: '1–9',
    label: strings.shortcuts.labels.option,
  },
  refuse: { scope: 'card', keys: '0', label: strings.shortcuts.labels.refuse },
  reply: { scope: 'card', keys: 'r', label: strings.shortcuts.labels.reply },
  edit: { scope: 'card', keys: 'e', label: strings.shortcuts.labels.edit },

  listNext: { scope: 'list', keys: 'j', label: strings.shortcuts.labels.listNext },
  listPrevious: { scope: 'list', keys: 'k', label: strings.shortcuts.labels.listPrevious },
  archive: { scope: 'list', keys: 'e', label: strings.shortcuts.labels.archive },
  rename: { scope: 'list', keys: 'r', label: strings.shortcuts.labels.rename },
  markUnread: { scope: 'list', keys: 'u', label: strings.shortcuts.labels.markUnread },

  moveUp: { scope: 'queue', keys: 'Alt+ArrowUp', label: strings.shortcuts.labels.moveUp },
  moveDown: { scope: 'queue', keys: 'Alt+ArrowDown', label: strings.shortcuts.labels.moveDown },
} as const satisfies Record<string, Shortcut>;

export type ShortcutId = keyof typeof SHORTCUTS;

/** Scopes in the order of the shortcuts dialog, with headings. */
export const SCOPE_HEADINGS: readonly (readonly [ShortcutScope, string])[] = [
  ['global', strings.shortcuts.scopes.global],
  ['composer', strings.shortcuts.scopes.composer],
  ['card', strings.shortcuts.scopes.card],
  ['list', strings.shortcuts.scopes.list],
  ['queue', strings.shortcuts.scopes.queue],
];

/** The shortcuts of a scope, for the shortcuts dialog. */
export function shortcutsInScope(scope: ShortcutScope): readonly Shortcut[] {
  return Object.values<Shortcut>(SHORTCUTS).filter((shortcut) => shortcut.scope === scope);
}

/** The fields of a key event that identify a stroke. */
export type KeyPress = Pick<KeyboardEvent, 'key' | 'code' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>;

export const isMac = typeof navigator !== 'undefined' && /Mac|iP(hone|ad|od)/.test(navigator.userAgent);

/** Normalizes a key press to the registry notation. */
export function normalizeKeyPress({ key, code, ctrlKey, metaKey, altKey, shiftKey }: KeyPress): string {
  // On non-Latin layouts the physical key decides.
  const latin = key.length === 1 && key > '~' ? (/^Key([A-Z])$/.exec(code)?.[1]?.toLowerCase() ?? key) : key;
  const isLatin = /^[a-z]$/i.test(latin);
  const name = latin === ' ' ? 'Space' : isLatin ? latin.toLowerCase() : latin;
  // Ctrl+Alt types a character on many layouts.
  const mod = (ctrlKey || metaKey) && !(ctrlKey && altKey);
  // Some layouts need Shift for characters such as `?`.
  const shift = shiftKey && (isLatin || name.length > 1);
  return [mod && 'mod', altKey && !ctrlKey && 'alt', shift && 'shift', name].filter(Boolean).join('+');
}

/** Whether a stroke has a Mod or Alt modifier. */
export function isChord(stroke: string): boolean {
  return stroke.startsWith('mod+') || stroke.startsWith('alt+');
}

/** Whether a stroke types a character. */
export function typesCharacter(stroke: string): boolean {
  return stroke.length === 1 || stroke === 'Space';
}

/** Key caps of a shortcut. */
export function keyCaps(keys: string, mac: boolean): readonly string[] {
  const caps: Record<string, string> = mac
    ? { Mod: '⌘', Shift: '⇧', Alt: '⌥' }
    : { Mod: 'Ctrl', Shift: 'Shift', Alt: 'Alt' };
  const names: Record<string, string> = {
    ArrowUp: '↑',
    ArrowDown: '↓',
    ArrowLeft: '←',
    ArrowRight: '→',
    Escape: 'Esc',
    Enter: '↵',
    End: 'End',
  };
  return keys
    .split(' ')
    .flatMap((stroke) => strokeParts(stroke).map((part) => caps[part] ?? names[part] ?? part.toUpperCase()));
}

/** A shortcut as inline text, for tooltips. */
export function shortcutHint(id: ShortcutId): string {
  const [first = ''] = [SHORTCUTS[id].keys].flat();
  return keyCaps(first, isMac).join(isMac ? '' : '+');
}

/** A shortcut in `aria-keyshortcuts` notation. */
export function ariaKeyShortcut(id: ShortcutId): string {
  const [first = ''] = [SHORTCUTS[id].keys].flat();
  return first.replace('Mod', isMac ? 'Meta' : 'Control');
}

function strokeParts(stroke: string): readonly string[] {
  // `Mod++` is the plus key.
  return stroke === '+' ? ['+'] : stroke.split(/\+(?=.)/);
}

/** The normalized strokes of a shortcut. */
export function strokesOf({ keys }: Shortcut): readonly string[] {
  return (typeof keys === 'string' ? [keys] : keys).map((stroke) => stroke.split(' ').map(normalizeStroke).join(' '));
}

function normalizeStroke(stroke: string): string {
  const parts = strokeParts(stroke);
  const key = parts.at(-1) ?? '';
  const modifiers = parts.slice(0, -1).map((part) => part.toLowerCase());
  const ordered = ['mod', 'alt', 'shift'].filter((modifier) => modifiers.includes(modifier));
  return [...ordered, key.length === 1 ? key.toLowerCase() : key].join('+');
}
