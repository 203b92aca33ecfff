/** The way to a card, wherever it is: its turn may be long, and may have to be brought to the page first. */

/** How long somebody waits for a chat that has to be read, in milliseconds. */
const SCROLL_TIMEOUT_MS = 10_000;
/** How many frames a card stays where it is until nothing around it is being measured any more. */
const STABLE_FRAMES = 3;

/** Scrolls until a card is seen, and gives it the keys. Whoever scrolls or presses something meanwhile goes their own way. */
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
      // What is higher than the screen is read from its beginning.
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
