/** What somebody has unfolded in a chat. Turns leave the page and come back to it; this stays. */

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
