/** What is kept about calls and requests while their cards come and go, as they do when somebody scrolls. */

import { tick, untrack } from 'svelte';
import type { Attachment } from 'svelte/attachments';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { focusMessageFieldUnlessTouch } from '../app/message-field-focus.ts';
import { remember } from './bounded-map.ts';
import { answerable, type CardActions } from './card-keys.svelte.ts';

/** The cards that can be seen now, by their places. */
export const onScreen = new SvelteSet<string>();

/** Calls that somebody has opened or closed, by their places. */
export const unfolded = new SvelteMap<string, boolean>();

export function unfold(place: string, isOpen: boolean): void {
  untrack(() => remember(unfolded, place, isOpen));
}

/** What can be typed into a card. */
export type Typed = 'denial' | 'input';

/** What somebody has typed into a card and not sent yet, by `slot`. */
export const unsent = new SvelteMap<string, string>();

/** Notes what somebody types. Fields that were left empty are forgotten some day, words are not. */
export function type(name: string, words: string): void {
  untrack(() => remember(unsent, name, words, (old) => old.trim() === ''));
}

/** Forgets everything about cards, with what was typed into them. */
export function forgetCards(): void {
  for (const known of [onScreen, unfolded, unsent]) known.clear();
}

export function slot(place: string, typed: Typed): string {
  return `${typed} ${place}`;
}

/** Marks a card as one that waits: it is known to be on the screen, and its keys answer. */
export function waits(place: string, actions: CardActions): Attachment<HTMLElement> {
  return (element) => {
    const { seen, end } = untrack(() => answerable(place, element, actions));
    const observer = new IntersectionObserver((entries) => {
      const isOnScreen = entries.at(-1)?.isIntersecting ?? false;
      if (isOnScreen) onScreen.add(place);
      else onScreen.delete(place);
      seen(isOnScreen);
    });
    observer.observe(element);
    // Until it is known whether it is seen, nobody is reminded of it.
    untrack(() => onScreen.add(place));
    return () => {
      const hadFocus = element.contains(document.activeElement);
      observer.disconnect();
      onScreen.delete(place);
      end();
      // The focus goes to the field for messages after every answer.
      if (hadFocus) void tick().then(() => isFocusLost() && focusMessageFieldUnlessTouch());
    };
  };
}

function isFocusLost(): boolean {
  return !document.activeElement || document.activeElement === document.body;
}
