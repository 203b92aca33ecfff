/** Keys of an open menu: arrows, Home and End move the focus, Escape closes it. */
export function handleMenuKey(event: KeyboardEvent, list: HTMLElement | undefined, close: () => void): void {
  const all = [...(list?.querySelectorAll('button') ?? [])];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === 'Escape') close();
  else if (to !== undefined) all.at(to % all.length)?.focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
