/** Paths as people type them while they choose a folder, and URIs as the host wants them. */

import type { Uri } from '../ahp/index.ts';
import { path } from '../ui/format.ts';

/** What was typed: the folder whose contents are shown, and the beginning of a name in it. */
export interface Typed {
  readonly folder: string;
  readonly prefix: string;
}

/** A path on the host's machine; `~` is where the host begins. */
export function absolute(typed: string, home: string): string {
  const text = typed.trim();
  if (text === '~' || text.startsWith('~/')) return clean(home + text.slice(1));
  return clean(text.startsWith('/') || /^[A-Za-z]:[\\/]/.test(text) ? text : `${home}/${text}`);
}

export function typedPath(typed: string, home: string): Typed {
  const isFolder = typed.trim() === '' || typed.trim() === '~' || typed.endsWith('/');
  const whole = absolute(typed, home);
  if (isFolder) return { folder: whole, prefix: '' };
  const at = whole.lastIndexOf('/');
  return { folder: whole.slice(0, at) || '/', prefix: whole.slice(at + 1) };
}

/** Names of folders that go on as typed. Hidden ones are shown to whoever types the dot. */
export function completions(names: readonly string[], prefix: string): readonly string[] {
  const wanted = prefix.toLowerCase();
  const hidden = prefix.startsWith('.');
  const fits = names.filter((name) => name.toLowerCase().startsWith(wanted) && (hidden || !name.startsWith('.')));
  return fits.sort((one, other) => one.localeCompare(other));
}

export function join(folder: string, name: string): string {
  return folder.endsWith('/') ? folder + name : `${folder}/${name}`;
}

export function parent(folder: string): string | undefined {
  const whole = folder.replace(/(?<=.)\/$/, '');
  const at = whole.lastIndexOf('/');
  return whole === '/' || at < 0 ? undefined : whole.slice(0, at) || '/';
}

export function uriOf(folder: string): Uri {
  const drive = /^[A-Za-z]:/.test(folder) ? '/' : '';
  return `file://${drive}${folder.replaceAll('\\', '/').split('/').map(encodeSegment).join('/')}`;
}

/** A folder for people: below the host's own directory it begins with `~`. */
export function shown(uri: Uri, home: Uri | undefined): string {
  const whole = clean(path(uri));
  const own = home && clean(path(home));
  if (!own || own === '/') return whole;
  if (whole === own) return '~';
  return whole.startsWith(`${own}/`) ? `~${whole.slice(own.length)}` : whole;
}

/** Without doubled or trailing slashes, and without `.` and `..`. */
export function clean(folder: string): string {
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
