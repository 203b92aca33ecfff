/** Distance from the end that counts as the end. */
const NEAR_END_PX = 24;

/** Whether a box is scrolled to its end. */
export function isScrolledToEnd(box: Pick<HTMLElement, 'scrollHeight' | 'scrollTop' | 'clientHeight'>): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
}
