/** History of own messages, recalled with the arrow keys. */

import type { ChatState } from '../ahp/index.ts';

/** Own messages of a chat, newest first, without duplicates. */
export function ownMessages(state: ChatState | undefined): readonly string[] {
  if (!state) return [];
  const turns = state.activeTurn ? [...state.turns, state.activeTurn] : state.turns;
  const sentTexts = turns.filter(({ message }) => message.origin.kind === 'user').map(({ message }) => message.text);
  const texts = [...sentTexts, ...(state.queuedMessages ?? []).map(({ message }) => message.text)];
  return [...new Set(texts.reverse())].filter((text) => text.trim() !== '');
}

/** A position in the history. */
export class MessageHistory {
  /** Discarded text that was never sent; it comes first. */
  readonly #discarded: string[] = [];
  #index = -1;
  #recalled: string | undefined;

  /** Adds text that left the field without being sent. */
  addDiscarded(text: string): void {
    if (text.trim() === '' || this.#discarded.includes(text)) return;
    this.#discarded.unshift(text);
  }

  /** Whether the arrow keys may replace the field: it is empty or shows a recalled message. */
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
