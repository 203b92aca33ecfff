/** A line more or less is still the end, in pixels. */
const NEAR = 24;

/** Whether somebody sees the end of what scrolls. */
export function isAtEnd(box: Pick<HTMLElement, 'scrollHeight' | 'scrollTop' | 'clientHeight'>): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
}
