/** Completion while somebody types: asks the host, and drops answers that came too late. */

import type { Client, CompletionItem, Uri } from '../ahp/index.ts';
import { moved, triggered } from './completion-text.ts';

/** Milliseconds without a key before the host is asked. */
const SETTLES = 60;

export class Completing {
  items: readonly CompletionItem[] = $state.raw([]);
  /** Which item the keys are at. */
  at = $state(0);
  readonly #client: Client;
  readonly #chat: Uri;
  #asked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Where the word begins for which somebody did not want any. */
  #unwanted: number | undefined;

  constructor(client: Client, chat: Uri) {
    this.#client = client;
    this.#chat = chat;
  }

  get isOpen(): boolean {
    return this.items.length > 0;
  }

  /** The text has changed, or the cursor was moved. */
  look(text: string, cursor: number): void {
    this.#asked += 1;
    clearTimeout(this.#timer);
    const word = triggered(text, cursor, this.#client.host.value?.completionTriggerCharacters ?? []);
    if (word?.start !== this.#unwanted) this.#unwanted = undefined;
    if (!word || this.#unwanted !== undefined) {
      this.items = [];
      return;
    }
    const asked = this.#asked;
    this.#timer = setTimeout(() => void this.#ask(text, cursor, asked), SETTLES);
  }

  move(by: number): void {
    this.at = moved(this.at, by, this.items.length);
  }

  /** Somebody does not want any for this word. */
  dismiss(text: string, cursor: number): void {
    this.close();
    this.#unwanted = triggered(text, cursor, this.#client.host.value?.completionTriggerCharacters ?? [])?.start;
  }

  close(): void {
    this.#asked += 1;
    clearTimeout(this.#timer);
    this.items = [];
  }

  async #ask(text: string, offset: number, asked: number): Promise<void> {
    if (this.#client.connection.value.phase !== 'ready') return;
    const params = { channel: this.#chat, kind: 'userMessage' as const, text, offset };
    const answer = await this.#client.request('completions', params).catch(() => ({ items: [] }));
    if (asked !== this.#asked) return;
    this.items = answer.items;
    this.at = 0;
  }
}
