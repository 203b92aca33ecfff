/** A search that goes on: page by page, and again while the host still reads. */

import { type Client, ROOT_CHANNEL, type SessionSearchResult } from '../ahp/index.ts';

/** How long the host is given to read on before it is asked again, in milliseconds. */
const AGAIN = 2_000;

export class Search {
  items: readonly SessionSearchResult[] = $state.raw([]);
  /** How many sessions the host has still to read. */
  pending = $state(0);
  /** Why something could not be read; the rest was found. */
  trouble: string | undefined = $state();
  busy = $state(false);
  error: Error | undefined = $state.raw();
  /** What the items were found for. */
  answered: string | undefined = $state();
  #next: number | undefined = $state();
  readonly #client: Client;
  #query = '';
  #all = false;
  #run: AbortController | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(client: Client) {
    this.#client = client;
  }

  get hasMore(): boolean {
    return this.#next !== undefined;
  }

  /** Looks for something else, or also in what the host does not list; what was asked before does not matter any more. */
  look(query: string, all = false): void {
    this.close();
    this.#query = query.trim();
    this.#all = all;
    if (this.#query !== '') void this.#ask(0);
    else {
      this.items = [];
      this.answered = undefined;
      this.error = undefined;
      this.#next = undefined;
      this.pending = 0;
      this.trouble = undefined;
    }
  }

  more(): void {
    if (this.#next !== undefined && !this.busy) void this.#ask(this.#next);
  }

  close(): void {
    this.#run?.abort();
    this.#stopTimer?.();
  }

  async #ask(offset: number): Promise<void> {
    const run = new AbortController();
    this.#run = run;
    this.busy = true;
    const query = this.#query;
    try {
      const params = { channel: ROOT_CHANNEL, query, offset, ...(this.#all && { all: true }) };
      const answer = await this.#client.request('hostler/search', params, { signal: run.signal });
      if (run.signal.aborted) return;
      // A session that was changed meanwhile may come twice.
      const before = offset === 0 ? [] : this.items;
      const known = new Set(before.map(({ session }) => session));
      this.items = [...before, ...answer.items.filter(({ session }) => !known.has(session))];
      this.#next = answer.nextOffset;
      this.pending = answer.pending;
      this.trouble = answer.trouble;
      this.answered = query;
      this.error = undefined;
      // Only the first page is asked for again: whoever has gone further would lose their place.
      if (answer.pending > 0 && offset === 0)
        this.#stopTimer = this.#client.environment.after(AGAIN, () => void this.#ask(0));
    } catch (error) {
      if (!run.signal.aborted) this.error = error as Error;
    } finally {
      if (this.#run === run) this.busy = false;
    }
  }
}
