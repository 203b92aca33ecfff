/** Expanded sections of a chat. Turns unmount while scrolled away; this state stays. */

import { createContext } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';

export class ExpandedSections {
  readonly #expanded = new SvelteMap<string, boolean>();

  has(key: string): boolean {
    return this.#expanded.get(key) ?? false;
  }

  set(key: string, isOpen: boolean): void {
    this.#expanded.set(key, isOpen);
  }
}

export const [getExpandedSections, setExpandedSections] = createContext<ExpandedSections>();
