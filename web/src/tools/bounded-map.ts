/** Bounded maps for card state, since a tab can stay open for weeks. */

/** Maximum number of entries. */
export const MAX_ENTRIES = 500;

/** Sets an entry; when the map is full, the oldest evictable entry is removed. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, canEvict: (value: V) => boolean = () => true): void {
  map.set(key, value);
  if (map.size <= MAX_ENTRIES) return;
  for (const [old, about] of map) {
    if (old === key || !canEvict(about)) continue;
    map.delete(old);
    return;
  }
}
