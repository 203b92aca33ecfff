/** What somebody has said before, brought back by a key. */

import type { ChatState } from '../ahp/index.ts';

/** One's own messages in a chat, the newest first, each once. */
export function ownMessages(state: ChatState | undefined): readonly string[] {
  if (!state) return [];
  const turns = state.activeTurn ? [...state.turns, state.activeTurn] : state.turns;
  const sentTexts = turns.filter(({ message }) => message.origin.kind === 'user').map(({ message }) => message.text);
  const texts = [...sentTexts, ...(state.queuedMessages ?? []).map(({ message }) => message.text)];
  return [...new Set(texts.reverse())].filter((text) => text.trim() !== '');
}

/** A walk through what was said. */
export class MessageHistory {
  /** What left the field without being sent; it comes first. */
  readonly #discarded: string[] = [];
  #index = -1;
  #recalled: string | undefined;

  /** Something is no longer in the field and was not sent: it can be brought back. */
  addDiscarded(text: string): void {
    if (text.trim() === '' || this.#discarded.includes(text)) return;
    this.#discarded.unshift(text);
  }

  /** Whether the keys may change the field: it is empty, or holds what they brought. */
  canBrowse(text: string): boolean {
    return text === '' || text === this.#recalled;
  }

  older(text: string, sentTexts: readonly string[]): string | undefined {
    return this.#recall(text, sentTexts, text === '' ? 0 : this.#index + 1);
  }

  newer(text: string, sentTexts: readonly string[]): string | undefined {
    return text === '' ? undefined : this.#recall(text, sentTexts, this.#index - 1);
  }

  #recall(text: string, sentTexts: readonly string[], index: number): string | undefined {
    if (!this.canBrowse(text)) return undefined;
    const all = [...this.#discarded, ...sentTexts.filter((each) => !this.#discarded.includes(each))];
    if (index >= all.length) return undefined;
    this.#index = index;
    this.#recalled = index < 0 ? undefined : all[index];
    return this.#recalled ?? '';
  }
}
