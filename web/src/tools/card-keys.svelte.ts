/**
 * The keys of requests that wait for an answer.
 *
 * Digits and letters belong to the card that contains the focus. The two chords that allow and deny belong to one card at a time:
 * the one that contains the focus, or else the first one on the screen. A hint is shown exactly where a key works.
 */

import { untrack } from 'svelte';
import { areLetterKeysEnabled } from '../app/preferences.svelte.ts';
import { shortcuts } from '../app/shortcut-dispatcher.ts';
import { ariaKeyShortcut, type ShortcutId } from '../app/shortcut-registry.ts';

/** What a card can do by keys. `false` if there is nothing to do. */
export interface CardActions {
  readonly option?: (number: number) => unknown;
  readonly deny?: () => unknown;
  readonly reply?: () => unknown;
  readonly edit?: () => unknown;
}

interface Card {
  readonly place: string;
  readonly element: HTMLElement;
  /** Whether the chords may be about it: it is a request that is allowed or denied. */
  readonly takesChords: boolean;
  isOnScreen: boolean;
}

/** How long a card is the chords' own before they work, in milliseconds: a card that has just come was not read. */
const SETTLE_MS = 400;

const cards = new Set<Card>();
const now: { focused: string | undefined; marked: string | undefined } = $state({
  focused: undefined,
  marked: undefined,
});
let elected: string | undefined;
let settling: ReturnType<typeof setTimeout> | undefined;

/** Whether digits and letters work on a card now. */
export function hasLetters(place: string): boolean {
  return areLetterKeysEnabled() && now.focused === place;
}

/** Whether the chords are about a card now. */
export function hasChords(place: string): boolean {
  return now.marked === place;
}

/** A card waits for an answer; the result takes it away. */
export function answerable(
  place: string,
  element: HTMLElement,
  actions: CardActions,
): { seen: (isOnScreen: boolean) => void; end: () => void } {
  const card: Card = { place, element, takesChords: actions.deny !== undefined, isOnScreen: true };
  cards.add(card);
  const within = () => element;
  const press = (control: string, run: (() => unknown) | undefined) => (event: KeyboardEvent) => {
    if (!run || !isSeen(element.querySelector(`[data-key="${control}"]`))) return false;
    // A key that is held down answers once.
    return event.repeat || untrack(run);
  };
  const when = () => hasChords(place);
  const unbind = shortcuts.bind(
    {
      id: 'option',
      within,
      run: (event) => press(event.key, () => actions.option?.(Number(event.key)) ?? false)(event),
    },
    { id: 'refuse', within, run: press('0', actions.deny) },
    { id: 'reply', within, run: press('r', actions.reply) },
    { id: 'edit', within, run: press('e', actions.edit) },
    { id: 'approve', when, run: press('1', () => actions.option?.(1)) },
    { id: 'deny', when, run: press('0', actions.deny) },
  );
  // A focused button that is taken away loses the focus in the middle of an update, when nothing may be changed.
  const entered = () => queueMicrotask(() => cards.has(card) && focus(place));
  const left = ({ relatedTarget }: FocusEvent) => {
    if (!(relatedTarget instanceof Node && element.contains(relatedTarget))) queueMicrotask(() => blur(place));
  };
  element.addEventListener('focusin', entered);
  element.addEventListener('focusout', left);
  elect();
  return {
    seen: (isOnScreen) => {
      card.isOnScreen = isOnScreen;
      elect();
    },
    end: () => {
      unbind();
      element.removeEventListener('focusin', entered);
      element.removeEventListener('focusout', left);
      cards.delete(card);
      blur(place);
    },
  };
}

function focus(place: string): void {
  now.focused = place;
  elect();
}

function blur(place: string): void {
  if (untrack(() => now.focused) === place) now.focused = undefined;
  elect();
}

/** Gives the chords to one card: at once if it has the focus, and else when it has been the first one for a moment. */
function elect(): void {
  const focused = untrack(() => now.focused);
  const able = [...cards].filter(({ takesChords }) => takesChords);
  const chosen =
    able.find(({ place }) => place === focused) ?? able.filter(({ isOnScreen }) => isOnScreen).sort(byPlace)[0];
  if (chosen?.place === elected && chosen?.place !== focused) return;
  clearTimeout(settling);
  elected = chosen?.place;
  const mark = () => {
    now.marked = elected;
  };
  if (elected === focused) return mark();
  now.marked = undefined;
  settling = setTimeout(mark, SETTLE_MS);
}

function byPlace(one: Card, other: Card): number {
  return one.element.compareDocumentPosition(other.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
}

/**
 * Whether the button that a key stands for can be seen: it may be scrolled away, lie under something else, or behind the door. What
 * is found at its place knows all of that.
 */
function isSeen(control: Element | null): boolean {
  if (!control) return false;
  const { left, top, width, height } = control.getBoundingClientRect();
  const found = document.elementFromPoint(left + width / 2, top + height / 2);
  // A small box is pressed by its label.
  return found !== null && (control.contains(found) || found.closest('label')?.contains(control) === true);
}

/** What `aria-keyshortcuts` says about a button of a card: the keys that work now. */
export function ariaKeys(place: string, key: string, chord?: ShortcutId): string | undefined {
  const keys = [hasLetters(place) && key, chord && hasChords(place) && ariaKeyShortcut(chord)].filter(Boolean);
  return keys.length > 0 ? keys.join(' ') : undefined;
}
