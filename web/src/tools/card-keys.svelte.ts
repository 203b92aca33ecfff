/**
 * Keyboard shortcuts of pending requests. Digits and letters belong to the focused card. The two chords that allow and
 * deny belong to one card at a time: the focused card, or else the first visible one. Hints appear exactly where a key
 * works.
 */

import { untrack } from 'svelte';
import { areLetterKeysEnabled } from '../core/preferences.svelte.ts';
import { shortcuts } from '../core/shortcut-dispatcher.ts';
import { ariaKeyShortcut, type ShortcutId } from '../core/shortcut-registry.ts';

/** Keyboard actions of a card. They return `false` if there is nothing to do. */
export interface CardActions {
  readonly option?: (number: number) => unknown;
  readonly deny?: () => unknown;
  readonly reply?: () => unknown;
  readonly edit?: () => unknown;
}

interface RegisteredCard {
  readonly cardId: string;
  readonly element: HTMLElement;
  /** Whether the chords apply: the request can be allowed or denied. */
  readonly takesChords: boolean;
  isOnScreen: boolean;
}

/** Time a card must be the chord target before chords work, so that a new card is not answered unread. */
const CHORD_DELAY_MS = 400;

const cards = new Set<RegisteredCard>();
const keyTargets: { focused: string | undefined; marked: string | undefined } = $state({
  focused: undefined,
  marked: undefined,
});
let chordCandidate: string | undefined;
let chordTimer: ReturnType<typeof setTimeout> | undefined;

/** Whether digits and letters work on a card. */
export function hasLetterKeys(cardId: string): boolean {
  return areLetterKeysEnabled() && keyTargets.focused === cardId;
}

/** Whether the chords target a card. */
export function hasChords(cardId: string): boolean {
  return keyTargets.marked === cardId;
}

/** Registers a card; the result updates and unregisters it. */
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
    // A held key answers once.
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
  // Removing a focused button blurs it during an update, when state must not change.
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

/** Assigns the chords to one card: at once if it is focused, otherwise after a delay. */
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
 * Whether the button of a key is visible: not scrolled away, covered, or behind the sign-in page. Hit testing at its
 * position detects all of these.
 */
function isUnobscured(control: Element | null): boolean {
  if (!control) return false;
  const { left, top, width, height } = control.getBoundingClientRect();
  const found = document.elementFromPoint(left + width / 2, top + height / 2);
  // A checkbox can be covered by its label.
  return found !== null && (control.contains(found) || found.closest('label')?.contains(control) === true);
}

/** The `aria-keyshortcuts` value of a card's button: the keys that work now. */
export function ariaKeys(cardId: string, key: string, chord?: ShortcutId): string | undefined {
  const keys = [hasLetterKeys(cardId) && key, chord && hasChords(cardId) && ariaKeyShortcut(chord)].filter(Boolean);
  return keys.length > 0 ? keys.join(' ') : undefined;
}
