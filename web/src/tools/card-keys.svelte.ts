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

interface RegisteredCard {
  readonly cardId: string;
  readonly element: HTMLElement;
  /** Whether the chords may be about it: it is a request that is allowed or denied. */
  readonly takesChords: boolean;
  isOnScreen: boolean;
}

/** How long a card is the chords' own before they work, in milliseconds: a card that has just come was not read. */
const CHORD_DELAY_MS = 400;

const cards = new Set<RegisteredCard>();
const keyTargets: { focused: string | undefined; marked: string | undefined } = $state({
  focused: undefined,
  marked: undefined,
});
let chordCandidate: string | undefined;
let chordTimer: ReturnType<typeof setTimeout> | undefined;

/** Whether digits and letters work on a card now. */
export function hasLetterKeys(cardId: string): boolean {
  return areLetterKeysEnabled() && keyTargets.focused === cardId;
}

/** Whether the chords are about a card now. */
export function hasChords(cardId: string): boolean {
  return keyTargets.marked === cardId;
}

/** A card waits for an answer; the result takes it away. */
export function registerCard(
  cardId: string,
  element: HTMLElement,
  actions: CardActions,
): { seen: (isOnScreen: boolean) => void; end: () => void } {
  const card: RegisteredCard = { cardId, element, takesChords: actions.deny !== undefined, isOnScreen: true };
  cards.add(card);
  const within = () => element;
  const press = (control: string, run: (() => unknown) | undefined) => (event: KeyboardEvent) => {
    if (!run || !isUnobscured(element.querySelector(`[data-key="${control}"]`))) return false;
    // A key that is held down answers once.
    return event.repeat || untrack(run);
  };
  const when = () => hasChords(cardId);
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
  const onFocusIn = () => queueMicrotask(() => cards.has(card) && onCardFocus(cardId));
  const onFocusOut = ({ relatedTarget }: FocusEvent) => {
    if (!(relatedTarget instanceof Node && element.contains(relatedTarget))) queueMicrotask(() => onCardBlur(cardId));
  };
  element.addEventListener('focusin', onFocusIn);
  element.addEventListener('focusout', onFocusOut);
  updateChordTarget();
  return {
    seen: (isOnScreen) => {
      card.isOnScreen = isOnScreen;
      updateChordTarget();
    },
    end: () => {
      unbind();
      element.removeEventListener('focusin', onFocusIn);
      element.removeEventListener('focusout', onFocusOut);
      cards.delete(card);
      onCardBlur(cardId);
    },
  };
}

function onCardFocus(cardId: string): void {
  keyTargets.focused = cardId;
  updateChordTarget();
}

function onCardBlur(cardId: string): void {
  if (untrack(() => keyTargets.focused) === cardId) keyTargets.focused = undefined;
  updateChordTarget();
}

/** Gives the chords to one card: at once if it has the focus, and else when it has been the first one for a moment. */
function updateChordTarget(): void {
  const focused = untrack(() => keyTargets.focused);
  const chordCards = [...cards].filter(({ takesChords }) => takesChords);
  const chosen =
    chordCards.find(({ cardId }) => cardId === focused) ??
    chordCards.filter(({ isOnScreen }) => isOnScreen).sort(compareByPosition)[0];
  if (chosen?.cardId === chordCandidate && chosen?.cardId !== focused) return;
  clearTimeout(chordTimer);
  chordCandidate = chosen?.cardId;
  const mark = () => {
    keyTargets.marked = chordCandidate;
  };
  if (chordCandidate === focused) return mark();
  keyTargets.marked = undefined;
  chordTimer = setTimeout(mark, CHORD_DELAY_MS);
}

function compareByPosition(one: RegisteredCard, other: RegisteredCard): number {
  return one.element.compareDocumentPosition(other.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
}

/**
 * Whether the button that a key stands for can be seen: it may be scrolled away, lie under something else, or behind the door. What
 * is found at its place knows all of that.
 */
function isUnobscured(control: Element | null): boolean {
  if (!control) return false;
  const { left, top, width, height } = control.getBoundingClientRect();
  const found = document.elementFromPoint(left + width / 2, top + height / 2);
  // A small box is pressed by its label.
  return found !== null && (control.contains(found) || found.closest('label')?.contains(control) === true);
}

/** What `aria-keyshortcuts` says about a button of a card: the keys that work now. */
export function ariaKeys(cardId: string, key: string, chord?: ShortcutId): string | undefined {
  const keys = [hasLetterKeys(cardId) && key, chord && hasChords(cardId) && ariaKeyShortcut(chord)].filter(Boolean);
  return keys.length > 0 ? keys.join(' ') : undefined;
}
