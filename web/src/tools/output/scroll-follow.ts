/** A line more or less is still the end, in pixels. */
const NEAR_END_PX = 24;

/** Whether somebody sees the end of what scrolls. */
export function isScrolledToEnd(box: Pick<HTMLElement, 'scrollHeight' | 'scrollTop' | 'clientHeight'>): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
}
