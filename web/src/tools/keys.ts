/**
 * Keys that answer what waits. They belong to the card that has the focus, or else to the first one that can be seen; and a key
 * does nothing unless the button that it stands for can be seen, too.
 */

export interface Waiting {
  readonly element: HTMLElement;
  /** Whether it did something with the key. */
  readonly press: (key: string) => boolean;
}

const all = new Set<Waiting>();

/** Listens as long as something waits; the result takes it out again. */
export function listen(waiting: Waiting): () => void {
  // Before the page's own shortcuts: what waits is more urgent.
  if (all.size === 0) addEventListener('keydown', pressed, true);
  all.add(waiting);
  return () => {
    all.delete(waiting);
    if (all.size === 0) removeEventListener('keydown', pressed, true);
  };
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  const target = event.target instanceof HTMLElement ? event.target : document.body;
  if (isTypedInto(target) || document.querySelector('dialog[open], [role="menu"]')) return;
  const key = event.key.toLowerCase();
  const chosen = choose(target);
  if (!chosen || !controls(chosen, key).some(isSeen) || !chosen.press(key)) return;
  event.preventDefault();
  event.stopPropagation();
}

function choose(target: HTMLElement): Waiting | undefined {
  const focused = [...all].find(({ element }) => element.contains(target));
  if (focused) return focused;
  return [...all].filter((waiting) => controls(waiting).some(isSeen)).sort(byPlace)[0];
}

function byPlace(one: Waiting, other: Waiting): number {
  return one.element.compareDocumentPosition(other.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
}

/** What a card offers by a key, or by this one. */
function controls({ element }: Waiting, key?: string): readonly Element[] {
  const all = [...element.querySelectorAll('[aria-keyshortcuts]')];
  return key === undefined
    ? all
    : all.filter((control) => control.getAttribute('aria-keyshortcuts')?.split(' ').includes(key));
}

/**
 * Nobody answers by a key what they do not see: it may be scrolled away, lie under something else, or behind the door. What is
 * found at its place knows all of that.
 */
function isSeen(control: Element): boolean {
  const { left, top, width, height } = control.getBoundingClientRect();
  const found = document.elementFromPoint(left + width / 2, top + height / 2);
  // A small box is pressed by its label.
  return found !== null && (control.contains(found) || found.closest('label')?.contains(control) === true);
}

function isTypedInto(element: HTMLElement): boolean {
  if (element instanceof HTMLInputElement) return !['checkbox', 'radio', 'button', 'submit'].includes(element.type);
  return element.isContentEditable || element.matches('textarea, select');
}
