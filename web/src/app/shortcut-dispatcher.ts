/**
 * The dispatcher of the page's shortcuts: finds what a key does in the part of the page that has the focus, and leads every other
 * character to the field for messages.
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

/** What a key does now. */
export interface ShortcutBinding {
  readonly id: ShortcutId;
  /** `false` if there was nothing to do: then the key is free for others. */
  readonly run: (event: KeyboardEvent) => unknown;
  readonly when?: () => boolean;
  /** What has to contain the focus; global shortcuts have nothing of that. */
  readonly within?: () => Element | null | undefined;
}

/** What has the focus: the element, and whether text is typed into it. */
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

  /** Lets a shortcut do something; the result takes it away again. Of several, the one that was bound last is asked first. */
  bind(...bindings: readonly ShortcutBinding[]): () => void {
    this.#bindings = [...this.#bindings, ...bindings];
    return () => {
      this.#bindings = this.#bindings.filter((binding) => !bindings.includes(binding));
    };
  }

  /** What a key may do, in the order in which it is tried: what contains the focus comes before what works anywhere. */
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

  /** Does what a key is for, or leads what types a character to the field for messages. */
  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || MODIFIERS.has(event.key)) return;
    // The browser keeps the focus in a dialog and closes it with Escape; a menu has its own keys.
    if (document.querySelector('dialog[open], [role="menu"]')) return;
    const element = event.target instanceof Element ? event.target : undefined;
    const isField = isTextInput(element);
    for (const { run } of this.find(event, { element, isField })) {
      if (run(event) === false) continue;
      event.preventDefault();
      return;
    }
    // The browser types the character into what has the focus then.
    if (!isField && typesText(event)) focusMessageField();
  }

  /** Listens to a window; the result stops it. */
  listen(window: Window): () => void {
    const pressed = (event: KeyboardEvent) => this.handle(event);
    window.addEventListener('keydown', pressed);
    return () => window.removeEventListener('keydown', pressed);
  }
}

/** The page's own. */
export const shortcuts = new ShortcutDispatcher();

const MODIFIERS = new Set(['Shift', 'Control', 'Alt', 'Meta', 'AltGraph', 'CapsLock']);
