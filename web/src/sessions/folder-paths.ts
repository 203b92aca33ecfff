/** Typed folder paths and host URIs. Pure. */

import type { Uri } from '../ahp/index.ts';
import { uriPath } from '../format.ts';

/** A typed path: the listed folder and the prefix of a name in it. */
export interface ParsedPath {
  readonly folder: string;
  readonly prefix: string;
}

/** An absolute path on the host; `~` is the host's default directory. */
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

/** Folder names that start with the prefix. Hidden ones need a leading dot. */
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

/** A folder for display; below the host's default directory it starts with `~`. */
export function displayPath(uri: Uri, home: Uri | undefined): string {
  const fullPath = normalizePath(uriPath(uri));
  const homePath = home && normalizePath(uriPath(home));
  if (!homePath || homePath === '/') return fullPath;
  if (fullPath === homePath) return '~';
  return fullPath.startsWith(`${homePath}/`) ? `~${fullPath.slice(homePath.length)}` : fullPath;
}

/** Removes empty, `.` and `..` segments. */
export function normalizePath(folder: string): string {
  const parts: string[] = [];
  for (const part of folder.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return /^[A-Za-z]:$/.test(parts[0] ?? '') ? parts.join('/') : `/${parts.join('/')}`;
}

function encodeSegment(segment: string): string {
  // The colon of a drive letter is not encoded, as in the host's URIs.
  return encodeURIComponent(segment).replaceAll('%3A', ':');
}
