/** Rows of the session list: waiting sessions first, others grouped by workspace, newest first. Pure. */

import type { SessionListView, SessionSummary, Uri } from '../ahp/index.ts';
import {
  folderName,
  isArchived,
  isWaiting,
  matchesSession,
  searchWords,
  workspaceOf,
} from '../core/session-summary.ts';
import { uriName, uriPath } from '../format.ts';
import { strings } from '../strings.ts';

export interface GroupRow {
  readonly kind: 'group';
  readonly key: string;
  readonly title: string;
  /** The path, if another group has the same title. */
  readonly location?: string;
  /** The folder of its sessions. */
  readonly directory?: Uri;
  readonly count: number;
  readonly isExpanded: boolean;
}

export interface SessionRow {
  readonly kind: 'session';
  readonly key: string;
  readonly session: SessionSummary;
  /** The folder name, unless the group shows it. */
  readonly folder?: string;
}

export type SessionListRow = GroupRow | SessionRow;

export interface RowOptions {
  /** Words that the title, folder or tag must contain. */
  readonly text: string;
  readonly archived: boolean;
  /** Keys of the collapsed groups. */
  readonly collapsed: ReadonlySet<string>;
}

/** Key of the group of waiting sessions. */
export const WAITING_GROUP_KEY = 'waiting';

export function buildRows(items: readonly SessionSummary[], options: RowOptions): readonly SessionListRow[] {
  const words = searchWords(options.text);
  const included = items.filter((session) => isIncluded(session, words, options.archived));
  const waiting = included.filter(isWaiting);
  const groups = new Map<string, SessionSummary[]>();
  for (const session of included) {
    if (isWaiting(session)) continue;
    const key = workspaceOf(session) ?? '';
    const group = groups.get(key);
    if (group) group.push(session);
    else groups.set(key, [session]);
  }
  const titles = countNames([...groups].map(([key, sessions]) => groupTitle(key, sessions)));
  // Filtering expands all groups.
  const isOpen = (key: string) => words.length > 0 || !options.collapsed.has(key);
  const rows: SessionListRow[] = [];
  if (waiting.length > 0) {
    const key = WAITING_GROUP_KEY;
    rows.push({
      kind: 'group',
      key,
      title: strings.common.waitingForYou,
      count: waiting.length,
      isExpanded: isOpen(key),
    });
    if (isOpen(key)) for (const session of waiting) rows.push(sessionRow(session, folderName(session)));
  }
  for (const [key, sessions] of groups) {
    const title = groupTitle(key, sessions);
    const isDouble = (titles.get(title) ?? 0) > 1;
    rows.push({
      kind: 'group',
      key,
      title,
      count: sessions.length,
      isExpanded: isOpen(key),
      ...(key && { directory: key }),
      ...(isDouble && { location: uriPath(key) }),
    });
    if (isOpen(key)) for (const session of sessions) rows.push(sessionRow(session));
  }
  return rows;
}

/** Whether to load the next page at the end of the list. A failed page needs a manual retry. */
export function shouldLoadMore({ hasMore, loading, error }: Omit<SessionListView, 'items'>): boolean {
  return hasMore && !loading && error === undefined;
}

/** Folders of sessions, most recent first. */
export function recentFolders(items: readonly SessionSummary[], limit: number): readonly Uri[] {
  const folders = items.flatMap(({ workingDirectories }) => workingDirectories?.slice(0, 1) ?? []);
  return [...new Set(folders.map((uri) => uri.replace(/(?<=.)\/$/, '')))].slice(0, limit);
}

function isIncluded(session: SessionSummary, words: readonly string[], archived: boolean): boolean {
  if (isArchived(session) !== archived) return false;
  return matchesSession(session, words);
}

function sessionRow(session: SessionSummary, folder?: string): SessionRow {
  return { kind: 'session', key: session.resource, session, ...(folder && { folder }) };
}

function groupTitle(key: string, [first]: readonly SessionSummary[]): string {
  return (first && folderName(first)) || (key ? uriName(key) : strings.sessions.noFolder);
}

function countNames(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
