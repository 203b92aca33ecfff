/** What is kept about calls and requests while their cards come and go, as they do when somebody scrolls. */

import { untrack } from 'svelte';
import type { Attachment } from 'svelte/attachments';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { listen } from './keys.ts';
import { remember } from './recent.ts';

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

export function slot(place: string, typed: Typed): string {
  return `${typed} ${place}`;
}

/** Marks a card as one that waits: it is known to be on the screen, and hears its keys. */
export function waits(place: string, press: (key: string) => boolean): Attachment<HTMLElement> {
  return (element) => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.at(-1)?.isIntersecting) onScreen.add(place);
      else onScreen.delete(place);
    });
    observer.observe(element);
    // Until it is known whether it is seen, nobody is reminded of it.
    untrack(() => onScreen.add(place));
    const stop = listen({ element, press });
    return () => {
      observer.disconnect();
      onScreen.delete(place);
      stop();
    };
  };
}
