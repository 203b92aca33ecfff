/** Keys that answer what waits. They belong to the card that has the focus, or else to the first one that can be seen. */

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
  if (!choose(target)?.press(event.key.toLowerCase())) return;
  event.preventDefault();
  event.stopPropagation();
}

function choose(target: HTMLElement): Waiting | undefined {
  const focused = [...all].find(({ element }) => element.contains(target));
  if (focused) return focused;
  return [...all].filter(({ element }) => isSeen(element)).sort(byPlace)[0];
}

function byPlace(one: Waiting, other: Waiting): number {
  return one.element.compareDocumentPosition(other.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
}

/** Nobody answers by a key what they do not see. */
function isSeen(element: HTMLElement): boolean {
  const { top, bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < innerHeight;
}

function isTypedInto(element: HTMLElement): boolean {
  if (element instanceof HTMLInputElement) return !['checkbox', 'radio', 'button', 'submit'].includes(element.type);
  return element.isContentEditable || element.matches('textarea, select');
}
