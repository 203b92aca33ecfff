/** The session list: loads pages and applies notifications. */

import type { Client } from '../client.ts';
import { BatchedValue, type Readable } from '../observable.ts';
import { omitUndefined } from '../reducers/objects.ts';
import { ROOT_CHANNEL, type SessionSummary, type Uri } from '../types/index.ts';

export interface SessionListView {
  /** Sorted by modification time, newest first. */
  readonly items: readonly SessionSummary[];
  /** Whether there are more pages. */
  readonly hasMore: boolean;
  readonly loading: boolean;
  readonly error?: Error;
}

/** Maps a session's summary to its next value; undefined removes it. */
type SummaryChange = (summary: SessionSummary | undefined) => SessionSummary | undefined;

const SESSIONS_PAGE_SIZE = 100;

export class SessionListStore {
  readonly view: Readable<SessionListView>;
  readonly #client: Client;
  readonly #view: BatchedValue<SessionListView>;
  readonly #unsubscribers: (() => void)[];
  #items = new Map<Uri, SessionSummary>();
  #cursor: string | undefined;
  #error: Error | undefined;
  #loading: Promise<void> | undefined;
  /** Changes notified while a page is loading; they are newer than the page. */
  readonly #changesWhileLoading = new Map<Uri, SummaryChange>();
  #refreshAgain = false;
  /** The load that failed last. */
  #failedLoad: (() => Promise<void>) | undefined;

  constructor(client: Client) {
    this.#client = client;
    this.#view = new BatchedValue(client.batch, () => this.#computeView());
    this.view = this.#view;
    this.#unsubscribers = [
      client.on('root/sessionAdded', ({ summary }) => this.#applyChange(summary.resource, () => summary)),
      client.on('root/sessionRemoved', ({ session }) => this.#applyChange(session, () => undefined)),
      client.on('root/sessionSummaryChanged', ({ session, changes }) => this.#onSummaryChanged(session, changes)),
      // Missed notifications are not repeated, so the list may be outdated.
      client.onReconnected(() => this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.#unsubscribers) stop();
  }

  /** Reloads as many sessions as are loaded. */
  refresh(): void {
    if (this.#loading) this.#refreshAgain = true;
    else void this.#load(() => this.#reload());
  }

  /** Repeats the load that failed. */
  retry(): void {
    if (!this.#loading && this.#failedLoad) void this.#load(this.#failedLoad);
  }

  /** Loads the next page, if any. */
  async loadMore(): Promise<void> {
    if (this.#loading || this.#cursor === undefined) return this.#loading;
    const cursor = this.#cursor;
    return this.#load(async () => {
      const page = await this.#fetchPage(cursor);
      const items = new Map(this.#items);
      for (const summary of page.items) items.set(summary.resource, summary);
      this.#replaceItems(items, page.nextCursor);
    });
  }

  #load(work: () => Promise<void>): Promise<void> {
    this.#error = undefined;
    this.#failedLoad = undefined;
    const done = () => {
      this.#loading = undefined;
      this.#changesWhileLoading.clear();
      this.#view.invalidate();
      if (this.#refreshAgain) this.refresh();
    };
    this.#loading = work()
      .catch((error: Error) => {
        this.#error = error;
        this.#failedLoad = work;
      })
      .then(done);
    this.#refreshAgain = false;
    this.#view.invalidate();
    return this.#loading;
  }

  async #reload(): Promise<void> {
    const loadedCount = this.#items.size;
    const fresh = new Map<Uri, SessionSummary>();
    let cursor: string | undefined;
    do {
      const page = await this.#fetchPage(cursor);
      for (const summary of page.items) fresh.set(summary.resource, summary);
      cursor = page.nextCursor;
    } while (cursor !== undefined && fresh.size < loadedCount);
    this.#replaceItems(fresh, cursor);
  }

  #fetchPage(cursor: string | undefined) {
    const params = { channel: ROOT_CHANNEL, limit: SESSIONS_PAGE_SIZE };
    return this.#client.request('listSessions', cursor === undefined ? params : { ...params, cursor });
  }

  #replaceItems(items: Map<Uri, SessionSummary>, cursor: string | undefined): void {
    for (const [uri, change] of this.#changesWhileLoading) applyTo(items, uri, change);
    this.#items = items;
    this.#cursor = cursor;
  }

  #applyChange(uri: Uri, change: SummaryChange): void {
    if (this.#loading) {
      const before = this.#changesWhileLoading.get(uri);
      this.#changesWhileLoading.set(uri, before ? (summary) => change(before(summary)) : change);
    }
    const items = new Map(this.#items);
    applyTo(items, uri, change);
    this.#items = items;
    this.#view.invalidate();
  }

  #onSummaryChanged(uri: Uri, changes: Partial<SessionSummary>): void {
    const definedChanges = omitUndefined<Partial<SessionSummary>>(changes);
    this.#applyChange(uri, (summary) => summary && { ...summary, ...definedChanges });
    // The session is on a page that is not loaded or still loading; only a page has its full summary.
    if (!this.#items.has(uri)) this.refresh();
  }

  #computeView(): SessionListView {
    const items = [...this.#items.values()].sort(compareByModified);
    const view = { items, hasMore: this.#cursor !== undefined, loading: this.#loading !== undefined };
    return this.#error ? { ...view, error: this.#error } : view;
  }
}

function applyTo(items: Map<Uri, SessionSummary>, uri: Uri, change: SummaryChange): void {
  const summary = change(items.get(uri));
  if (summary) items.set(uri, summary);
  else items.delete(uri);
}

function compareByModified(one: SessionSummary, other: SessionSummary): number {
  if (one.modifiedAt !== other.modifiedAt) return one.modifiedAt < other.modifiedAt ? 1 : -1;
  return one.resource < other.resource ? -1 : 1;
}
