/** Focus of the message field: which field receives typed characters, and when it is focused. */

/** Registered message fields, newest last: a composer, or the first message of a new session. */
let fields: readonly HTMLElement[] = [];

/** Registers a message field; the result unregisters it. */
export function registerMessageField(field: HTMLElement): () => void {
  fields = [...fields, field];
  return () => {
    fields = fields.filter((other) => other !== field);
  };
}

/** Focuses the message field if it is visible. */
export function focusMessageField(): boolean {
  const field = fields.at(-1);
  field?.focus();
  return field !== undefined && document.activeElement === field;
}

/** Whether the primary pointer is touch, where focusing a field opens the on-screen keyboard. */
export function isTouchDevice(): boolean {
  return matchMedia('(pointer: coarse)').matches;
}

/** Focuses the message field unless that would open the on-screen keyboard. */
export function focusMessageFieldUnlessTouch(): boolean {
  return !isTouchDevice() && focusMessageField();
}

/** Types of `input` elements that take no text. */
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

/** Whether an element takes text. */
export function isTextInput(element: Element | null | undefined): boolean {
  if (!(element instanceof HTMLElement)) return false;
  if (element instanceof HTMLInputElement) return !NON_TEXT_INPUT_TYPES.has(element.type);
  return element.isContentEditable || element.matches('textarea, select');
}

/** Whether an element is in an open menu or dialog, which closes when it loses the focus. */
export function isInOverlay(element: Element | null | undefined): boolean {
  return element?.closest('[role="menu"], [role="dialog"], dialog, [aria-haspopup][aria-expanded="true"]') != null;
}

/** The fields of a key event that decide whether it types text. */
export type TypedKey = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'getModifierState'>;

/**
 * Whether a key types a character, including IME, dead keys, AltGr and the Mac's Option key. Space is excluded, since it
 * activates buttons and scrolls.
 */
export function typesText(event: TypedKey, mac = /Mac/.test(navigator.userAgent)): boolean {
  const { key, ctrlKey, metaKey, altKey } = event;
  const isCharacter = [...key].length === 1 && key !== ' ';
  if (metaKey || !(isCharacter || key === 'Dead' || key === 'Process')) return false;
  if (!ctrlKey && !altKey) return true;
  return altKey && (ctrlKey || mac || event.getModifierState('AltGraph'));
}
