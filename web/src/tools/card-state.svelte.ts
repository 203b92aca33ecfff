/** What is kept about calls and requests while their cards come and go, as they do when somebody scrolls. */

import { tick, untrack } from 'svelte';
import type { Attachment } from 'svelte/attachments';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { focusMessageFieldUnlessTouch } from '../app/message-field-focus.ts';
import { setBounded } from './bounded-map.ts';
import { type CardActions, registerCard } from './card-keys.svelte.ts';

/** The cards that can be seen now, by their places. */
export const visibleCards = new SvelteSet<string>();

/** Calls that somebody has opened or closed, by their places. */
export const expandedCalls = new SvelteMap<string, boolean>();

export function setExpanded(cardId: string, isOpen: boolean): void {
  untrack(() => setBounded(expandedCalls, cardId, isOpen));
}

/** What can be typed into a card. */
export type CardField = 'denial' | 'input';

/** What somebody has typed into a card and not sent yet, by `slot`. */
export const unsentText = new SvelteMap<string, string>();

/** Notes what somebody types. Fields that were left empty are forgotten some day, words are not. */
export function setUnsentText(name: string, text: string): void {
  untrack(() => setBounded(unsentText, name, text, (old) => old.trim() === ''));
}

/** Forgets everything about cards, with what was typed into them. */
export function clearCardState(): void {
  for (const known of [visibleCards, expandedCalls, unsentText]) known.clear();
}

export function fieldKey(cardId: string, field: CardField): string {
  return `${field} ${cardId}`;
}

/** Marks a card as one that waits: it is known to be on the screen, and its keys answer. */
export function trackCard(cardId: string, actions: CardActions): Attachment<HTMLElement> {
  return (element) => {
    const { seen, end } = untrack(() => registerCard(cardId, element, actions));
    const observer = new IntersectionObserver((entries) => {
      const isOnScreen = entries.at(-1)?.isIntersecting ?? false;
      if (isOnScreen) visibleCards.add(cardId);
      else visibleCards.delete(cardId);
      seen(isOnScreen);
    });
    observer.observe(element);
    // Until it is known whether it is seen, nobody is reminded of it.
    untrack(() => visibleCards.add(cardId));
    return () => {
      const hadFocus = element.contains(document.activeElement);
      observer.disconnect();
      visibleCards.delete(cardId);
      end();
      // The focus goes to the field for messages after every answer.
      if (hadFocus) void tick().then(() => isFocusLost() && focusMessageFieldUnlessTouch());
    };
  };
}

function isFocusLost(): boolean {
  return !document.activeElement || document.activeElement === document.body;
}
