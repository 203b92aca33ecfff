/** The way to a card, wherever it is: its turn may be long, and may have to be brought to the page first. */

/** How long somebody waits for a chat that has to be read, in milliseconds. */
const PATIENCE = 10_000;
/** How many frames a card stays where it is until nothing around it is being measured any more. */
const CALM = 3;

/** Scrolls until a card is seen, and gives it the keys. Whoever scrolls or presses something meanwhile goes their own way. */
export async function leadTo(place: string): Promise<void> {
  const own = new AbortController();
  const limit = AbortSignal.any([own.signal, AbortSignal.timeout(PATIENCE)]);
  for (const event of ['wheel', 'touchmove', 'keydown', 'pointerdown'])
    addEventListener(event, () => own.abort(), { signal: limit, capture: true, passive: true });
  let calm = 0;
  let before: number | undefined;
  while (!limit.aborted && calm < CALM) {
    const card = document.getElementById(place);
    if (card) {
      // What is higher than the screen is read from its beginning.
      const isHigh = card.offsetHeight > innerHeight / 2;
      card.scrollIntoView({ block: isHigh ? 'start' : 'center' });
      const { top } = card.getBoundingClientRect();
      calm = before !== undefined && Math.abs(top - before) < 1 ? calm + 1 : 0;
      before = top;
    }
    await new Promise((done) => requestAnimationFrame(done));
  }
  if (!limit.aborted) focus(document.getElementById(place));
  own.abort();
}

function focus(card: HTMLElement | null): void {
  card?.querySelector<HTMLElement>('[role="group"]')?.focus({ preventScroll: true });
}
