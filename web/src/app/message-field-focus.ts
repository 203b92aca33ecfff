/** Where typed characters go: the field for messages that is on the page, and when the focus is led to it. */

/** Fields for messages, the newest last: a chat's composer, or the first message of a new session. */
let fields: readonly HTMLElement[] = [];

/** A field for messages is on the page; the result takes it away. */
export function registerMessageField(field: HTMLElement): () => void {
  fields = [...fields, field];
  return () => {
    fields = fields.filter((other) => other !== field);
  };
}

/** Moves the focus to the field for messages, if there is one that can be seen. */
export function focusMessageField(): boolean {
  const field = fields.at(-1);
  field?.focus();
  return field !== undefined && document.activeElement === field;
}

/** Whether the main pointer is a finger: then a focused field brings up a keyboard that covers half of the screen. */
export function isTouchDevice(): boolean {
  return matchMedia('(pointer: coarse)').matches;
}

/** Moves the focus to the field for messages without a key that asked for it: not where that brings up a keyboard. */
export function focusMessageFieldUnlessTouch(): boolean {
  return !isTouchDevice() && focusMessageField();
}

/** Buttons and the like: `input` elements that take no text. */
const NON_TEXT_INPUT_TYPES = new Set([
  'button',
  'checkbox',
  'radio',
  'range',
  'submit',
  'reset',
  'file',
  'color',
  'image',
]);

/** Whether an element takes what is typed. */
export function isTextInput(element: Element | null | undefined): boolean {
  if (!(element instanceof HTMLElement)) return false;
  if (element instanceof HTMLInputElement) return !NON_TEXT_INPUT_TYPES.has(element.type);
  return element.isContentEditable || element.matches('textarea, select');
}

/** Whether an element belongs to an open menu or dialog, which closes when it loses the focus. */
export function isInOverlay(element: Element | null | undefined): boolean {
  return element?.closest('[role="menu"], [role="dialog"], dialog, [aria-haspopup][aria-expanded="true"]') != null;
}

/** What decides whether a key types something. */
export type TypedKey = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'getModifierState'>;

/**
 * Whether a key types a character: also the first key of an input method, a dead key, and those with AltGr or the Mac's Option
 * key. The space bar presses buttons and scrolls.
 */
export function typesText(event: TypedKey, mac = /Mac/.test(navigator.userAgent)): boolean {
  const { key, ctrlKey, metaKey, altKey } = event;
  const isCharacter = [...key].length === 1 && key !== ' ';
  if (metaKey || !(isCharacter || key === 'Dead' || key === 'Process')) return false;
  if (!ctrlKey && !altKey) return true;
  return altKey && (ctrlKey || mac || event.getModifierState('AltGraph'));
}
