/** What somebody has said before, brought back by a key. */

import type { ChatState } from '../ahp/index.ts';

/** One's own messages in a chat, the newest first, each once. */
export function ownMessages(state: ChatState | undefined): readonly string[] {
  if (!state) return [];
  const turns = state.activeTurn ? [...state.turns, state.activeTurn] : state.turns;
  const said = turns.filter(({ message }) => message.origin.kind === 'user').map(({ message }) => message.text);
  const texts = [...said, ...(state.queuedMessages ?? []).map(({ message }) => message.text)];
  return [...new Set(texts.reverse())].filter((text) => text.trim() !== '');
}

/** A walk through what was said. */
export class History {
  /** What left the field without being sent; it comes first. */
  readonly #left: string[] = [];
  #at = -1;
  #brought: string | undefined;

  /** Something is no longer in the field and was not sent: it can be brought back. */
  leave(text: string): void {
    if (text.trim() === '' || this.#left.includes(text)) return;
    this.#left.unshift(text);
  }

  /** Whether the keys may change the field: it is empty, or holds what they brought. */
  mayBrowse(text: string): boolean {
    return text === '' || text === this.#brought;
  }

  older(text: string, said: readonly string[]): string | undefined {
    return this.#go(text, said, text === '' ? 0 : this.#at + 1);
  }

  newer(text: string, said: readonly string[]): string | undefined {
    return text === '' ? undefined : this.#go(text, said, this.#at - 1);
  }

  #go(text: string, said: readonly string[], to: number): string | undefined {
    if (!this.mayBrowse(text)) return undefined;
    const all = [...this.#left, ...said.filter((each) => !this.#left.includes(each))];
    if (to >= all.length) return undefined;
    this.#at = to;
    this.#brought = to < 0 ? undefined : all[to];
    return this.#brought ?? '';
  }
}
