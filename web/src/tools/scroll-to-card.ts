/** Scrolls to the card of a request, which may first have to load and render. */

/** Maximum time to wait for the card. */
const SCROLL_TIMEOUT_MS = 10_000;
/** Frames without movement before scrolling ends. */
const STABLE_FRAMES = 3;

/** Scrolls until the card is visible and focuses it. User input cancels it. */
export async function scrollToCard(cardId: string): Promise<void> {
  const interruption = new AbortController();
  const limit = AbortSignal.any([interruption.signal, AbortSignal.timeout(SCROLL_TIMEOUT_MS)]);
  for (const event of ['wheel', 'touchmove', 'keydown', 'pointerdown'])
    addEventListener(event, () => interruption.abort(), { signal: limit, capture: true, passive: true });
  let stableFrames = 0;
  let previousTop: number | undefined;
  while (!limit.aborted && stableFrames < STABLE_FRAMES) {
    const card = document.getElementById(cardId);
    if (card) {
      // Cards higher than half the screen align to their top.
      const isHigh = card.offsetHeight > innerHeight / 2;
      card.scrollIntoView({ block: isHigh ? 'start' : 'center' });
      const { top } = card.getBoundingClientRect();
      stableFrames = previousTop !== undefined && Math.abs(top - previousTop) < 1 ? stableFrames + 1 : 0;
      previousTop = top;
    }
    await new Promise((done) => requestAnimationFrame(done));
  }
  if (!limit.aborted) focusCard(document.getElementById(cardId));
  interruption.abort();
}

function focusCard(card: HTMLElement | null): void {
  card?.querySelector<HTMLElement>('[role="group"]')?.focus({ preventScroll: true });
}
