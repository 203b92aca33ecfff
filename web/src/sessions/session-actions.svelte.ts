/** What can be done to a session from anywhere: by its menu, by a key, by the palette. */

import type { SessionSummary, Uri } from '../ahp/index.ts';
import type { Page } from '../app/page.svelte.ts';
import { copyText } from '../ui/clipboard.ts';
import type { MenuItem } from '../ui/Menu.svelte';
import { remove, rename, setArchived, setRead, setTag } from './session-commands.ts';
import { isArchived, isUnread, tagOf, titleOf } from './session-rows.ts';

export class SessionActions {
  readonly #page: Page;
  /** The session whose name is being typed in the list. */
  renaming: Uri | undefined = $state();
  /** The session that somebody is asked about before it is deleted. */
  deleting: SessionSummary | undefined = $state.raw();
  /** The session whose tag is being typed. */
  tagging: SessionSummary | undefined = $state.raw();
  /** A session that somebody wants to find unread, although it is open. */
  keptUnread: Uri | undefined = $state();

  constructor(page: Page) {
    this.#page = page;
  }

  async rename(session: SessionSummary, title: string): Promise<void> {
    this.renaming = undefined;
    const wanted = title.trim();
    if (wanted === '' || wanted === session.title) return;
    await this.#page.attempt(rename(this.#page.host, session.resource, wanted));
  }

  async setArchived(session: SessionSummary, archived: boolean): Promise<void> {
    const done = await this.#page.attempt(setArchived(this.#page.host, session.resource, archived));
    if (done) this.#page.showNotice(`${archived ? 'Archived' : 'Back in the list'}: ${titleOf(session)}`);
  }

  async setRead(session: SessionSummary, isRead: boolean): Promise<void> {
    this.keptUnread = isRead ? undefined : session.resource;
    await this.#page.attempt(setRead(this.#page.host, session.resource, isRead));
  }

  /** Puts a tag on a session; an empty one takes it away. */
  async setTag(session: SessionSummary, tag: string): Promise<void> {
    this.tagging = undefined;
    const wanted = tag.trim();
    if (wanted !== (tagOf(session) ?? ''))
      await this.#page.attempt(setTag(this.#page.host, session.resource, wanted || null));
  }

  async delete(session: SessionSummary): Promise<void> {
    this.deleting = undefined;
    const { route } = this.#page;
    if (route.view === 'session' && route.session === session.resource)
      this.#page.navigate({ view: 'home' }, 'replace');
    const done = await this.#page.attempt(remove(this.#page.host, session.resource));
    if (done) this.#page.showNotice(`Deleted: ${titleOf(session)}`);
  }

  async copyId(session: SessionSummary): Promise<void> {
    const done = await this.#page.attempt(copyText(session.resource));
    if (done) this.#page.showNotice('The id is copied.');
  }

  /** A session's menu. */
  menu(session: SessionSummary): readonly MenuItem[] {
    const archived = isArchived(session);
    const unread = isUnread(session);
    return [
      { label: 'Rename', icon: 'edit', run: () => this.startRename(session) },
      {
        label: unread ? 'Mark as read' : 'Mark as unread',
        icon: 'unread',
        run: () => void this.setRead(session, unread),
      },
      {
        label: archived ? 'Unarchive' : 'Archive',
        icon: 'archive',
        run: () => void this.setArchived(session, !archived),
      },
      { label: 'Tag…', icon: 'tag', run: () => this.#startTag(session) },
      { label: 'Copy id', icon: 'copy', run: () => void this.copyId(session) },
      { label: 'Delete…', icon: 'trash', danger: true, run: () => this.#ask(session) },
    ];
  }

  startRename(session: SessionSummary): void {
    this.renaming = session.resource;
  }

  #startTag(session: SessionSummary): void {
    this.tagging = session;
  }

  #ask(session: SessionSummary): void {
    this.deleting = session;
  }
}
