/** State of calls and requests that outlives their cards, which unmount while scrolled away. */

import { tick, untrack } from 'svelte';
import type { Attachment } from 'svelte/attachments';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { focusMessageFieldUnlessTouch } from '../core/message-field-focus.ts';
import { setBounded } from './bounded-map.ts';
import { type CardActions, registerCard } from './card-keys.svelte.ts';

/** Ids of the visible cards. */
export const visibleCards = new SvelteSet<string>();

/** Calls that the user expanded or collapsed, by card id. */
export const expandedCalls = new SvelteMap<string, boolean>();

export function setExpanded(cardId: string, isOpen: boolean): void {
  untrack(() => setBounded(expandedCalls, cardId, isOpen));
}

/** The text fields of a card. */
export type CardField = 'denial' | 'input';

/** Unsent text of cards, by `fieldKey`. */
export const unsentText = new SvelteMap<string, string>();

/** Stores unsent text. Empty entries can be evicted, text cannot. */
export function setUnsentText(name: string, text: string): void {
  untrack(() => setBounded(unsentText, name, text, (old) => old.trim() === ''));
}

/** Clears all card state, including unsent text. */
export function clearCardState(): void {
  for (const known of [visibleCards, expandedCalls, unsentText]) known.clear();
}

export function fieldKey(cardId: string, field: CardField): string {
  return `${field} ${cardId}`;
}

/** Tracks a pending card: its visibility and its keys. */
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
    // A new card counts as visible until the observer reports, so that no reminder flashes.
    untrack(() => visibleCards.add(cardId));
    return () => {
      const hadFocus = element.contains(document.activeElement);
      observer.disconnect();
      visibleCards.delete(cardId);
      end();
      // After an answer the focus returns to the message field.
      if (hadFocus) void tick().then(() => isFocusLost() && focusMessageFieldUnlessTouch());
    };
  };
}

function isFocusLost(): boolean {
  return !document.activeElement || document.activeElement === document.body;
}
