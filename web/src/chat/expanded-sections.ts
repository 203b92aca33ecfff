/** What somebody has unfolded in a chat. Turns leave the page and come back to it; this stays. */

import { createContext } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';

export class Unfolded {
  readonly #all = new SvelteMap<string, boolean>();

  has(key: string): boolean {
    return this.#all.get(key) ?? false;
  }

  set(key: string, isOpen: boolean): void {
    this.#all.set(key, isOpen);
  }
}

export const [getUnfolded, setUnfolded] = createContext<Unfolded>();
