/** What is remembered of cards is bounded, since a tab may live for weeks. */

/** How many are remembered: more than anybody scrolls back to. */
export const MAX_ENTRIES = 500;

/** Remembers something; beyond the bound the oldest goes, of those that may go. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, canEvict: (value: V) => boolean = () => true): void {
  map.set(key, value);
  if (map.size <= MAX_ENTRIES) return;
  for (const [old, about] of map) {
    if (old === key || !canEvict(about)) continue;
    map.delete(old);
    return;
  }
}
