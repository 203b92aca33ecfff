/** The list of sessions as rows: what waits for somebody on top, the rest by workspace, the most recent first. */

import { activityOf, hasFlag, type SessionListView, type SessionSummary, StatusFlag, type Uri } from '../ahp/index.ts';
import { name, path } from '../ui/format.ts';
import { visible } from '../ui/visible.ts';

export interface GroupRow {
  readonly kind: 'group';
  readonly key: string;
  readonly title: string;
  /** Where it lies, if another group has the same name. */
  readonly place?: string;
  /** The folder that its sessions work in. */
  readonly directory?: Uri;
  readonly count: number;
  readonly isOpen: boolean;
}

export interface SessionRow {
  readonly kind: 'session';
  readonly key: string;
  readonly session: SessionSummary;
  /** The folder's name, where the group does not say it. */
  readonly folder?: string;
}

export type Row = GroupRow | SessionRow;

export interface Wanted {
  /** Words that are all in the title, the folder or the tag. */
  readonly text: string;
  readonly archived: boolean;
  /** Keys of the groups that are folded. */
  readonly folded: ReadonlySet<string>;
}

/** The key of the group of those that wait. */
export const WAITING = 'waiting';

export function rowsOf(items: readonly SessionSummary[], wanted: Wanted): readonly Row[] {
  const words = wordsOf(wanted.text);
  const shown = items.filter((session) => isWanted(session, words, wanted.archived));
  const waiting = shown.filter(isWaiting);
  const groups = new Map<string, SessionSummary[]>();
  for (const session of shown) {
    if (isWaiting(session)) continue;
    const key = workspaceOf(session) ?? '';
    const group = groups.get(key);
    if (group) group.push(session);
    else groups.set(key, [session]);
  }
  const titles = count([...groups].map(([key, sessions]) => groupTitle(key, sessions)));
  // What somebody looks for is never folded away.
  const isOpen = (key: string) => words.length > 0 || !wanted.folded.has(key);
  const rows: Row[] = [];
  if (waiting.length > 0) {
    const key = WAITING;
    rows.push({ kind: 'group', key, title: 'Waiting for you', count: waiting.length, isOpen: isOpen(key) });
    if (isOpen(key)) for (const session of waiting) rows.push(rowOf(session, folderName(session)));
  }
  for (const [key, sessions] of groups) {
    const title = groupTitle(key, sessions);
    const isDouble = (titles.get(title) ?? 0) > 1;
    rows.push({
      kind: 'group',
      key,
      title,
      count: sessions.length,
      isOpen: isOpen(key),
      ...(key && { directory: key }),
      ...(isDouble && { place: path(key) }),
    });
    if (isOpen(key)) for (const session of sessions) rows.push(rowOf(session));
  }
  return rows;
}

/** Whether the next page is asked for when the end of the rows is seen. One that failed is asked for by a person. */
export function readsOn({ hasMore, loading, error }: Omit<SessionListView, 'items'>): boolean {
  return hasMore && !loading && error === undefined;
}

/** Where a session works: its project, or its first directory. */
export function workspaceOf(session: SessionSummary): Uri | undefined {
  const uri = session.project?.uri ?? session.workingDirectories?.[0];
  return uri && uri.length > 'file:///'.length ? uri.replace(/\/$/, '') : uri;
}

export function folderName(session: SessionSummary): string {
  const uri = workspaceOf(session);
  return session.project?.displayName || (uri ? name(uri) : '');
}

/** Folders that sessions work in, the most recent first. */
export function recentFolders(items: readonly SessionSummary[], most: number): readonly Uri[] {
  const folders = items.flatMap(({ workingDirectories }) => workingDirectories?.slice(0, 1) ?? []);
  return [...new Set(folders.map((uri) => uri.replace(/(?<=.)\/$/, '')))].slice(0, most);
}

export function tagOf(session: SessionSummary): string | undefined {
  const own = session._meta?.hostler;
  const tag = typeof own === 'object' && own !== null && 'tag' in own ? own.tag : undefined;
  return typeof tag === 'string' && tag !== '' ? tag : undefined;
}

export function isWaiting(session: SessionSummary): boolean {
  return activityOf(session.status) === 'inputNeeded' && !isArchived(session);
}

export function isUnread(session: SessionSummary): boolean {
  return !hasFlag(session.status, StatusFlag.isRead);
}

export function isArchived(session: SessionSummary): boolean {
  return hasFlag(session.status, StatusFlag.isArchived);
}

/** What a session is called; one that was never named is still something. */
export function titleOf(session: { readonly title: string }): string {
  return visible(session.title.trim()) || 'Untitled session';
}

/** Whether all words are in a text, whatever their case and accents. */
export function matches(text: string, words: readonly string[]): boolean {
  const plain = fold(text);
  return words.every((word) => plain.includes(word));
}

export function wordsOf(text: string): readonly string[] {
  return fold(text)
    .split(/\s+/)
    .filter((word) => word !== '');
}

function isWanted(session: SessionSummary, words: readonly string[], archived: boolean): boolean {
  if (isArchived(session) !== archived) return false;
  return isFound(session, words);
}

/** What a session is found by. A line never changes: there is another one instead. */
const found = new WeakMap<SessionSummary, string>();

/** Whether all words are in a session's title, folder, tag or activity. */
export function isFound(session: SessionSummary, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  let text = found.get(session);
  if (text === undefined) {
    const where = session.workingDirectories?.[0];
    const parts = [session.title, folderName(session), where && path(where), tagOf(session), session.activity];
    text = fold(parts.filter(Boolean).join('\n'));
    found.set(session, text);
  }
  return words.every((word) => text.includes(word));
}

function rowOf(session: SessionSummary, folder?: string): SessionRow {
  return { kind: 'session', key: session.resource, session, ...(folder && { folder }) };
}

function groupTitle(key: string, [first]: readonly SessionSummary[]): string {
  return (first && folderName(first)) || (key ? name(key) : 'No folder');
}

function fold(text: string): string {
  return text
    .normalize('NFD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase();
}

function count(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
