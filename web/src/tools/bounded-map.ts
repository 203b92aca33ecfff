/** What is remembered of cards is bounded, since a tab may live for weeks. */

/** How many are remembered: more than anybody scrolls back to. */
export const MOST = 500;

/** Remembers something; beyond the bound the oldest goes, of those that may go. */
export function remember<K, V>(map: Map<K, V>, key: K, value: V, mayGo: (value: V) => boolean = () => true): void {
  map.set(key, value);
  if (map.size <= MOST) return;
  for (const [old, about] of map) {
    if (old === key || !mayGo(about)) continue;
    map.delete(old);
    return;
  }
}
