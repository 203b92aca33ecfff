/** The order of what waits. Pure. */

/** The list with one of its items at another place. */
export function moveItem<T>(items: readonly T[], from: number, to: number): readonly T[] {
  const item = items[from];
  const target = Math.min(Math.max(0, to), items.length - 1);
  if (item === undefined || from === target) return items;
  const rest = items.toSpliced(from, 1);
  return rest.toSpliced(target, 0, item);
}

/** Items in a wanted order; those that it does not name come last, in their own order. */
export function applyOrder<T extends { readonly id: string }>(
  items: readonly T[],
  order: readonly string[],
): readonly T[] {
  const named = order.flatMap((id) => items.filter((item) => item.id === id));
  return [...named, ...items.filter((item) => !order.includes(item.id))];
}

/** Which place a pointer means: that of the row whose middle it has not yet passed. */
export function dropIndex(pointer: number, rows: readonly { readonly top: number; readonly height: number }[]): number {
  const below = rows.findIndex(({ top, height }) => pointer < top + height / 2);
  return below === -1 ? rows.length : below;
}

/** Where an item ends up that is dropped before the item at a place, given that it leaves its own. */
export function indexAfterDrop(from: number, before: number): number {
  return before > from ? before - 1 : before;
}
