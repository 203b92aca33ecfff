/** Order of the message queue. Pure. */

/** Moves an item to another index. */
export function moveItem<T>(items: readonly T[], from: number, to: number): readonly T[] {
  const item = items[from];
  const target = Math.min(Math.max(0, to), items.length - 1);
  if (item === undefined || from === target) return items;
  const rest = items.toSpliced(from, 1);
  return rest.toSpliced(target, 0, item);
}

/** Sorts items by an order of ids; unnamed items follow in their own order. */
export function applyOrder<T extends { readonly id: string }>(
  items: readonly T[],
  order: readonly string[],
): readonly T[] {
  const named = order.flatMap((id) => items.filter((item) => item.id === id));
  return [...named, ...items.filter((item) => !order.includes(item.id))];
}

/** The drop index of a pointer: the first row whose middle is below it. */
export function dropIndex(pointer: number, rows: readonly { readonly top: number; readonly height: number }[]): number {
  const below = rows.findIndex(({ top, height }) => pointer < top + height / 2);
  return below === -1 ? rows.length : below;
}

/** The index of an item after it is dropped before another index. */
export function indexAfterDrop(from: number, before: number): number {
  return before > from ? before - 1 : before;
}
