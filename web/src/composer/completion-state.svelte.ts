/** Completion state of the message field: requests items and drops outdated responses. */

import type { Client, CompletionItem, Uri } from '../ahp/index.ts';
import { Combobox } from '../ui/combobox.svelte.ts';
import { findTriggerWord } from './completion-text.ts';

/** Delay after the last key. */
const REQUEST_DELAY_MS = 60;

export class CompletionState {
  items: readonly CompletionItem[] = $state.raw([]);
  readonly combobox: Combobox<CompletionItem>;
  readonly #client: Client;
  readonly #chat: Uri;
  #requestId = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Start of the word for which the user dismissed completion. */
  #dismissedAt: number | undefined;

  constructor(client: Client, chat: Uri, id: string, onchoose: (item: CompletionItem) => void) {
    this.combobox = new Combobox({ id, options: () => this.items, onchoose });
    this.#client = client;
    this.#chat = chat;
  }

  get isOpen(): boolean {
    return this.items.length > 0;
  }

  /** Updates completion after the text or the cursor changed. */
  update(text: string, cursor: number): void {
    this.#requestId += 1;
    clearTimeout(this.#timer);
    const word = findTriggerWord(text, cursor, this.#client.host.value?.completionTriggerCharacters ?? []);
    if (word?.start !== this.#dismissedAt) this.#dismissedAt = undefined;
    if (!word || this.#dismissedAt !== undefined) {
      this.items = [];
      return;
    }
    const requestId = this.#requestId;
    this.#timer = setTimeout(() => void this.#fetch(text, cursor, requestId), REQUEST_DELAY_MS);
  }

  /** Dismisses completion for the current word. */
  dismiss(text: string, cursor: number): void {
    this.close();
    this.#dismissedAt = findTriggerWord(
      text,
      cursor,
      this.#client.host.value?.completionTriggerCharacters ?? [],
    )?.start;
  }

  close(): void {
    this.#requestId += 1;
    clearTimeout(this.#timer);
    this.items = [];
  }

  async #fetch(text: string, offset: number, requestId: number): Promise<void> {
    if (this.#client.connection.value.phase !== 'ready') return;
    const params = { channel: this.#chat, kind: 'userMessage' as const, text, offset };
    const answer = await this.#client.request('completions', params).catch(() => ({ items: [] }));
    if (requestId !== this.#requestId) return;
    this.items = answer.items;
    this.combobox.reset();
  }
}
