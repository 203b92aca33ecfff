/** Actions on sessions from any view: menu, shortcuts and dialogs. */

import type { SessionSummary, Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import { copyText } from '../ui/clipboard.ts';
import type { MenuItem } from '../ui/menu-item.ts';
import type { Page } from './page.svelte.ts';
import { deleteSession, renameSession, setSessionArchived, setSessionRead, setSessionTag } from './session-commands.ts';
import { isArchived, isUnread, sessionTag, sessionTitle } from './session-summary.ts';

export class SessionActions {
  readonly #page: Page;
  /** The session being renamed in the list. */
  renaming: Uri | undefined = $state();
  /** The session in the delete dialog. */
  deleting: SessionSummary | undefined = $state.raw();
  /** The session in the tag dialog. */
  tagging: SessionSummary | undefined = $state.raw();
  /** The open session that the user marked as unread. */
  keptUnread: Uri | undefined = $state();

  constructor(page: Page) {
    this.#page = page;
  }

  async rename(session: SessionSummary, title: string): Promise<void> {
    this.renaming = undefined;
    const newValue = title.trim();
    if (newValue === '' || newValue === session.title) return;
    await this.#page.attempt(renameSession(this.#page.host, session.resource, newValue));
  }

  async setArchived(session: SessionSummary, archived: boolean): Promise<void> {
    const isDone = await this.#page.attempt(setSessionArchived(this.#page.host, session.resource, archived));
    if (isDone)
      this.#page.showNotice(
        (archived ? strings.sessions.archived : strings.sessions.unarchived)(sessionTitle(session)),
      );
  }

  async setRead(session: SessionSummary, isRead: boolean): Promise<void> {
    this.keptUnread = isRead ? undefined : session.resource;
    await this.#page.attempt(setSessionRead(this.#page.host, session.resource, isRead));
  }

  /** Sets a tag; an empty one removes it. */
  async setTag(session: SessionSummary, tag: string): Promise<void> {
    this.tagging = undefined;
    const newValue = tag.trim();
    if (newValue !== (sessionTag(session) ?? ''))
      await this.#page.attempt(setSessionTag(this.#page.host, session.resource, newValue || null));
  }

  async delete(session: SessionSummary): Promise<void> {
    this.deleting = undefined;
    const { route } = this.#page;
    if (route.view === 'session' && route.session === session.resource)
      this.#page.navigate({ view: 'home' }, 'replace');
    const isDone = await this.#page.attempt(deleteSession(this.#page.host, session.resource));
    if (isDone) this.#page.showNotice(strings.sessions.deleted(sessionTitle(session)));
  }

  async copyId(session: SessionSummary): Promise<void> {
    const isDone = await this.#page.attempt(copyText(session.resource));
    if (isDone) this.#page.showNotice(strings.sessions.idCopied);
  }

  /** The menu items of a session. */
  menuItems(session: SessionSummary): readonly MenuItem[] {
    const archived = isArchived(session);
    const unread = isUnread(session);
    return [
      { label: strings.sessions.rename, icon: 'edit', run: () => this.startRename(session) },
      {
        label: unread ? strings.sessions.markRead : strings.sessions.markUnread,
        icon: 'unread',
        run: () => void this.setRead(session, unread),
      },
      {
        label: archived ? strings.sessions.unarchive : strings.sessions.archive,
        icon: 'archive',
        run: () => void this.setArchived(session, !archived),
      },
      { label: strings.sessions.tag, icon: 'tag', run: () => this.#startTag(session) },
      { label: strings.sessions.copyId, icon: 'copy', run: () => void this.copyId(session) },
      { label: strings.sessions.deleteItem, icon: 'trash', danger: true, run: () => this.#confirmDelete(session) },
    ];
  }

  startRename(session: SessionSummary): void {
    this.renaming = session.resource;
  }

  #startTag(session: SessionSummary): void {
    this.tagging = session;
  }

  #confirmDelete(session: SessionSummary): void {
    this.deleting = session;
  }
}
