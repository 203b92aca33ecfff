/** Search state: loads result pages, and polls while the host is indexing. */

import { type Client, ROOT_CHANNEL } from '../ahp/index.ts';
import type { SessionSearchResult } from '../core/hostler-extensions.ts';

/** Poll interval while the host is indexing. */
const REINDEX_POLL_INTERVAL_MS = 2_000;

export class SearchState {
  items: readonly SessionSearchResult[] = $state.raw([]);
  /** Number of sessions that are not indexed yet. */
  pendingSessions = $state(0);
  /** Why some sessions could not be searched. */
  partialFailure: string | undefined = $state();
  isLoading = $state(false);
  error: Error | undefined = $state.raw();
  /** The query of the current items. */
  answeredQuery: string | undefined = $state();
  #nextOffset: number | undefined = $state();
  readonly #client: Client;
  #query = '';
  #includeExternal = false;
  #request: AbortController | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(client: Client) {
    this.#client = client;
  }

  get hasMore(): boolean {
    return this.#nextOffset !== undefined;
  }

  /** Starts a search, optionally including external sessions, and cancels the previous one. */
  search(query: string, includeExternal = false): void {
    this.close();
    this.#query = query.trim();
    this.#includeExternal = includeExternal;
    if (this.#query !== '') void this.#fetchPage(0);
    else {
      this.items = [];
      this.answeredQuery = undefined;
      this.error = undefined;
      this.#nextOffset = undefined;
      this.pendingSessions = 0;
      this.partialFailure = undefined;
    }
  }

  loadMore(): void {
    if (this.#nextOffset !== undefined && !this.isLoading) void this.#fetchPage(this.#nextOffset);
  }

  close(): void {
    this.#request?.abort();
    this.#stopTimer?.();
  }

  async #fetchPage(offset: number): Promise<void> {
    const request = new AbortController();
    this.#request = request;
    this.isLoading = true;
    const query = this.#query;
    try {
      const params = { channel: ROOT_CHANNEL, query, offset, ...(this.#includeExternal && { includeUnlisted: true }) };
      const answer = await this.#client.request('hostler/search', params, { signal: request.signal });
      if (request.signal.aborted) return;
      // A session that changed between pages can appear twice.
      const before = offset === 0 ? [] : this.items;
      const known = new Set(before.map(({ session }) => session));
      this.items = [...before, ...answer.items.filter(({ session }) => !known.has(session))];
      this.#nextOffset = answer.nextOffset;
      this.pendingSessions = answer.pendingSessions;
      this.partialFailure = answer.indexError;
      this.answeredQuery = query;
      this.error = undefined;
      // Only the first page is polled, so that the scroll position stays.
      if (answer.pendingSessions > 0 && offset === 0)
        this.#stopTimer = this.#client.environment.after(REINDEX_POLL_INTERVAL_MS, () => void this.#fetchPage(0));
    } catch (error) {
      if (!request.signal.aborted) this.error = error as Error;
    } finally {
      if (this.#request === request) this.isLoading = false;
    }
  }
}
