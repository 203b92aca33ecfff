/**
 * Dispatches shortcuts: finds the binding of a key for the focused part of the page, and sends other characters to the
 * message field.
 */

import { focusMessageField, isTextInput, typesText } from './message-field-focus.ts';
import { areLetterKeysEnabled } from './preferences.svelte.ts';
import {
  isChord,
  type KeyPress,
  normalizeKeyPress,
  SHORTCUTS,
  type Shortcut,
  type ShortcutId,
  strokesOf,
  typesCharacter,
} from './shortcut-registry.ts';

/** A shortcut with its current action. */
export interface ShortcutBinding {
  readonly id: ShortcutId;
  /** Returns `false` if it did nothing; then the next binding runs. */
  readonly run: (event: KeyboardEvent) => unknown;
  readonly when?: () => boolean;
  /** The element that must contain the focus; undefined for global shortcuts. */
  readonly within?: () => Element | null | undefined;
}

/** The focused element, and whether it takes text. */
export interface FocusContext {
  readonly element: Element | undefined;
  readonly isField: boolean;
}

export class ShortcutDispatcher {
  #bindings: readonly ShortcutBinding[] = [];
  readonly #areLetterKeysEnabled: () => boolean;

  constructor(areLettersEnabled: () => boolean = areLetterKeysEnabled) {
    this.#areLetterKeysEnabled = areLettersEnabled;
  }

  /** Adds bindings; the result removes them. The latest binding runs first. */
  bind(...bindings: readonly ShortcutBinding[]): () => void {
    this.#bindings = [...this.#bindings, ...bindings];
    return () => {
      this.#bindings = this.#bindings.filter((binding) => !bindings.includes(binding));
    };
  }

  /** The bindings of a key in order: focused scopes before global ones. */
  find(pressed: KeyPress, { element, isField }: FocusContext): readonly ShortcutBinding[] {
    const stroke = normalizeKeyPress(pressed);
    const matching = this.#bindings.filter((binding) => this.#matches(binding, stroke, element, isField)).reverse();
    const isGlobal = ({ id }: ShortcutBinding) => SHORTCUTS[id].scope === 'global';
    return [...matching.filter((binding) => !isGlobal(binding)), ...matching.filter(isGlobal)];
  }

  #matches(
    { id, when, within }: ShortcutBinding,
    stroke: string,
    element: Element | undefined,
    isField: boolean,
  ): boolean {
    const shortcut: Shortcut = SHORTCUTS[id];
    if (!strokesOf(shortcut).includes(stroke)) return false;
    if (isField && !isChord(stroke)) return false;
    if (typesCharacter(stroke) && !this.#areLetterKeysEnabled()) return false;
    const container = within?.();
    if (shortcut.scope !== 'global' && !(element && container?.contains(element))) return false;
    return when?.() ?? true;
  }

  /** Runs the binding of a key, or focuses the message field for typed characters. */
  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || MODIFIERS.has(event.key)) return;
    // Dialogs and menus handle their own keys.
    if (document.querySelector('dialog[open], [role="menu"]')) return;
    const element = event.target instanceof Element ? event.target : undefined;
    const isField = isTextInput(element);
    for (const { run } of this.find(event, { element, isField })) {
      if (run(event) === false) continue;
      event.preventDefault();
      return;
    }
    // The browser types the character into the focused element.
    if (!isField && typesText(event)) focusMessageField();
  }

  /** Listens to a window; the result stops it. */
  listen(window: Window): () => void {
    const pressed = (event: KeyboardEvent) => this.handle(event);
    window.addEventListener('keydown', pressed);
    return () => window.removeEventListener('keydown', pressed);
  }
}

/** The dispatcher of the page. */
export const shortcuts = new ShortcutDispatcher();

const MODIFIERS = new Set(['Shift', 'Control', 'Alt', 'Meta', 'AltGraph', 'CapsLock']);
