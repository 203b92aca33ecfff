/** Helpers for immutable updates. A call without effect returns its input. */

/** Copies an object without a property. */
export function omitKey<T extends object, K extends keyof T>(value: T, key: K): T {
  if (!(key in value)) return value;
  const { [key]: _gone, ...rest } = value;
  // Only optional properties are removed, so the type still holds.
  return rest as unknown as T;
}

/** Sets a property, or removes it for undefined: both are equal on the wire. */
export function setKey<T extends object, K extends keyof T>(value: T, key: K, next: T[K] | null | undefined): T {
  return next === undefined || next === null ? omitKey(value, key) : { ...value, [key]: next };
}

/** Removes properties without a value. */
export function omitUndefined<T extends object>(value: { [K in keyof T]: T[K] | null | undefined }): T {
  const entries = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(entries) as T;
}

/** Replaces the matching item or appends a new one. */
export function upsert<T>(list: readonly T[] | undefined, item: T, matches: (other: T) => boolean): readonly T[] {
  const at = list?.findIndex(matches) ?? -1;
  if (list === undefined) return [item];
  return at < 0 ? [...list, item] : list.with(at, item);
}

/** Removes the first matching item; returns the same list if none matches. */
export function removeItem<T>(list: readonly T[], matches: (item: T) => boolean): readonly T[] {
  const at = list.findIndex(matches);
  return at < 0 ? list : list.toSpliced(at, 1);
}

/** Sets or clears a flag of a status. */
export function setFlag(status: number, flag: number, set: boolean): number {
  return set ? status | flag : status & ~flag;
}
