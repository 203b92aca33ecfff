/** The list of sessions: read page by page, kept alive by notifications. */

import type { Client } from '../client.ts';
import { Batched, type Readable } from '../observable.ts';
import { compact } from '../reducers/objects.ts';
import { ROOT, type SessionSummary, type Uri } from '../types/index.ts';

export interface SessionsView {
  /** The most recently changed first. */
  readonly items: readonly SessionSummary[];
  /** Whether there are more than these. */
  readonly hasMore: boolean;
  readonly loading: boolean;
  readonly error?: Error;
}

/** What becomes of a session's line; none means that there is no such session. */
type Change = (line: SessionSummary | undefined) => SessionSummary | undefined;

const PAGE = 100;

export class Sessions {
  readonly view: Readable<SessionsView>;
  readonly #client: Client;
  readonly #view: Batched<SessionsView>;
  readonly #stops: (() => void)[];
  #items = new Map<Uri, SessionSummary>();
  #cursor: string | undefined;
  #error: Error | undefined;
  #loading: Promise<void> | undefined;
  /** What notifications said since the page that is on its way was asked for; they are newer than it. */
  readonly #told = new Map<Uri, Change>();
  #again = false;
  /** What could not be read. */
  #failed: (() => Promise<void>) | undefined;

  constructor(client: Client) {
    this.#client = client;
    this.#view = new Batched(client.batch, () => this.#show());
    this.view = this.#view;
    this.#stops = [
      client.on('root/sessionAdded', ({ summary }) => this.#apply(summary.resource, () => summary)),
      client.on('root/sessionRemoved', ({ session }) => this.#apply(session, () => undefined)),
      client.on('root/sessionSummaryChanged', ({ session, changes }) => this.#changed(session, changes)),
      // Notifications are not repeated: what is known may be old.
      client.onReturn(() => this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }

  /** Reads as much as is known once more. */
  refresh(): void {
    if (this.#loading) this.#again = true;
    else void this.#load(() => this.#reload());
  }

  /** Reads once more what could not be read. */
  retry(): void {
    if (!this.#loading && this.#failed) void this.#load(this.#failed);
  }

  /** Reads the next page, if there is one. */
  async more(): Promise<void> {
    if (this.#loading || this.#cursor === undefined) return this.#loading;
    const cursor = this.#cursor;
    return this.#load(async () => {
      const page = await this.#page(cursor);
      const known = new Map(this.#items);
      for (const summary of page.items) known.set(summary.resource, summary);
      this.#take(known, page.nextCursor);
    });
  }

  #load(work: () => Promise<void>): Promise<void> {
    this.#error = undefined;
    this.#failed = undefined;
    const done = () => {
      this.#loading = undefined;
      this.#told.clear();
      this.#view.changed();
      if (this.#again) this.refresh();
    };
    this.#loading = work()
      .catch((error: Error) => {
        this.#error = error;
        this.#failed = work;
      })
      .then(done);
    this.#again = false;
    this.#view.changed();
    return this.#loading;
  }

  async #reload(): Promise<void> {
    const wanted = this.#items.size;
    const fresh = new Map<Uri, SessionSummary>();
    let cursor: string | undefined;
    do {
      const page = await this.#page(cursor);
      for (const summary of page.items) fresh.set(summary.resource, summary);
      cursor = page.nextCursor;
    } while (cursor !== undefined && fresh.size < wanted);
    this.#take(fresh, cursor);
  }

  #page(cursor: string | undefined) {
    const params = { channel: ROOT, limit: PAGE };
    return this.#client.request('listSessions', cursor === undefined ? params : { ...params, cursor });
  }

  #take(items: Map<Uri, SessionSummary>, cursor: string | undefined): void {
    for (const [uri, change] of this.#told) put(items, uri, change);
    this.#items = items;
    this.#cursor = cursor;
  }

  #apply(uri: Uri, change: Change): void {
    if (this.#loading) {
      const before = this.#told.get(uri);
      this.#told.set(uri, before ? (line) => change(before(line)) : change);
    }
    const items = new Map(this.#items);
    put(items, uri, change);
    this.#items = items;
    this.#view.changed();
  }

  #changed(uri: Uri, changes: Partial<SessionSummary>): void {
    const news = compact<Partial<SessionSummary>>(changes);
    this.#apply(uri, (line) => line && { ...line, ...news });
    // It is on a page that was not read, or on one that is on its way: only a page tells all about it.
    if (!this.#items.has(uri)) this.refresh();
  }

  #show(): SessionsView {
    const items = [...this.#items.values()].sort(byChange);
    const view = { items, hasMore: this.#cursor !== undefined, loading: this.#loading !== undefined };
    return this.#error ? { ...view, error: this.#error } : view;
  }
}

function put(items: Map<Uri, SessionSummary>, uri: Uri, change: Change): void {
  const line = change(items.get(uri));
  if (line) items.set(uri, line);
  else items.delete(uri);
}

function byChange(one: SessionSummary, other: SessionSummary): number {
  if (one.modifiedAt !== other.modifiedAt) return one.modifiedAt < other.modifiedAt ? 1 : -1;
  return one.resource < other.resource ? -1 : 1;
}
