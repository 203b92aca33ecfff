/** Paths as people type them while they choose a folder, and URIs as the host wants them. */

import type { Uri } from '../ahp/index.ts';
import { uriPath } from '../ui/format.ts';

/** What was typed: the folder whose contents are shown, and the beginning of a name in it. */
export interface ParsedPath {
  readonly folder: string;
  readonly prefix: string;
}

/** A path on the host's machine; `~` is where the host begins. */
export function toAbsolutePath(typed: string, home: string): string {
  const text = typed.trim();
  if (text === '~' || text.startsWith('~/')) return normalizePath(home + text.slice(1));
  return normalizePath(text.startsWith('/') || /^[A-Za-z]:[\\/]/.test(text) ? text : `${home}/${text}`);
}

export function parseTypedPath(typed: string, home: string): ParsedPath {
  const isFolder = typed.trim() === '' || typed.trim() === '~' || typed.endsWith('/');
  const fullPath = toAbsolutePath(typed, home);
  if (isFolder) return { folder: fullPath, prefix: '' };
  const at = fullPath.lastIndexOf('/');
  return { folder: fullPath.slice(0, at) || '/', prefix: fullPath.slice(at + 1) };
}

/** Names of folders that go on as typed. Hidden ones are shown to whoever types the dot. */
export function completeFolderNames(names: readonly string[], prefix: string): readonly string[] {
  const lowerPrefix = prefix.toLowerCase();
  const hidden = prefix.startsWith('.');
  const matching = names.filter(
    (name) => name.toLowerCase().startsWith(lowerPrefix) && (hidden || !name.startsWith('.')),
  );
  return matching.sort((one, other) => one.localeCompare(other));
}

export function joinPath(folder: string, name: string): string {
  return folder.endsWith('/') ? folder + name : `${folder}/${name}`;
}

export function parentPath(folder: string): string | undefined {
  const fullPath = folder.replace(/(?<=.)\/$/, '');
  const at = fullPath.lastIndexOf('/');
  return fullPath === '/' || at < 0 ? undefined : fullPath.slice(0, at) || '/';
}

export function folderUri(folder: string): Uri {
  const drive = /^[A-Za-z]:/.test(folder) ? '/' : '';
  return `file://${drive}${folder.replaceAll('\\', '/').split('/').map(encodeSegment).join('/')}`;
}

/** A folder for people: below the host's own directory it begins with `~`. */
export function displayPath(uri: Uri, home: Uri | undefined): string {
  const fullPath = normalizePath(uriPath(uri));
  const homePath = home && normalizePath(uriPath(home));
  if (!homePath || homePath === '/') return fullPath;
  if (fullPath === homePath) return '~';
  return fullPath.startsWith(`${homePath}/`) ? `~${fullPath.slice(homePath.length)}` : fullPath;
}

/** Without doubled or trailing slashes, and without `.` and `..`. */
export function normalizePath(folder: string): string {
  const parts: string[] = [];
  for (const part of folder.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return /^[A-Za-z]:$/.test(parts[0] ?? '') ? parts.join('/') : `/${parts.join('/')}`;
}

function encodeSegment(segment: string): string {
  // A drive's colon stays, as the host writes it.
  return encodeURIComponent(segment).replaceAll('%3A', ':');
}
