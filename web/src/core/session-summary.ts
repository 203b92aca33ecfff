/** Facts about a session from its summary: title, folder, tag, state, and whether it matches words. Pure. */

import { activityOf, hasFlag, type SessionSummary, StatusFlag, type Uri } from '../ahp/index.ts';
import { uriName, uriPath } from '../format.ts';
import { strings } from '../strings.ts';
import { showInvisible } from '../ui/visible.ts';
import { readTag } from './host-metadata.ts';

/** The title of a session, with a fallback. */
export function sessionTitle(session: { readonly title: string }): string {
  return showInvisible(session.title.trim()) || strings.sessions.untitled;
}

/** The workspace of a session: its project or first directory. */
export function workspaceOf(session: SessionSummary): Uri | undefined {
  const uri = session.project?.uri ?? session.workingDirectories?.[0];
  return uri && uri.length > 'file:///'.length ? uri.replace(/\/$/, '') : uri;
}

export function folderName(session: SessionSummary): string {
  const uri = workspaceOf(session);
  return session.project?.displayName || (uri ? uriName(uri) : '');
}

export function sessionTag(session: SessionSummary): string | undefined {
  return readTag(session._meta);
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

export function searchWords(text: string): readonly string[] {
  return normalizeText(text)
    .split(/\s+/)
    .filter((word) => word !== '');
}

/** Whether a text contains all words, ignoring case and accents. */
export function matchesWords(text: string, words: readonly string[]): boolean {
  const plain = normalizeText(text);
  return words.every((word) => plain.includes(word));
}

/** Cache of normalized search text. Summaries are immutable. */
const searchTextCache = new WeakMap<SessionSummary, string>();

/** Whether a session's title, folder, tag or activity contains all words. */
export function matchesSession(session: SessionSummary, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  let text = searchTextCache.get(session);
  if (text === undefined) {
    const where = session.workingDirectories?.[0];
    const parts = [session.title, folderName(session), where && uriPath(where), sessionTag(session), session.activity];
    text = normalizeText(parts.filter(Boolean).join('\n'));
    searchTextCache.set(session, text);
  }
  return words.every((word) => text.includes(word));
}

function normalizeText(text: string): string {
  return text
    .normalize('NFD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase();
}
