/** Session rows, search queries and folder paths. */

import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/ahp/index.ts';
import { sessionTag } from '../src/core/session-summary.ts';
import {
  completeFolderNames,
  displayPath,
  folderUri,
  parentPath,
  parseTypedPath,
} from '../src/sessions/folder-paths.ts';
import { highlightMatches, parseQuery, withFilter } from '../src/sessions/search-query.ts';
import { buildRows, recentFolders, type SessionListRow, shouldLoadMore } from '../src/sessions/session-rows.ts';

const READ = 32;
const ARCHIVED = 64;

function session(title: string, folder: string, status = 1 | READ, more: Partial<SessionSummary> = {}): SessionSummary {
  const resource = `p:/${title}`;
  const times = { createdAt: '2026', modifiedAt: '2026' };
  return { resource, provider: 'p', title, status, workingDirectories: [`file://${folder}`], ...times, ...more };
}

const all = [
  session('gate', '/home/ann/stables'),
  session('ledger', '/home/ann/books', 24 | READ),
  session('hay', '/srv/stables/', 2),
  session('oats', '/home/ann/stables', 8 | READ),
  session('old', '/home/ann/stables', 1 | READ | ARCHIVED),
  session('Müsli', '/home/ann/books', 1, { _meta: { hostler: { tag: 'later' } } }),
];

function rowTitles(rows: readonly SessionListRow[]): string[] {
  return rows.map((row) =>
    row.kind === 'group'
      ? `${row.isExpanded ? '-' : '+'} ${row.title}${row.location ? ` (${row.location})` : ''} ${row.count}`
      : `${row.session.title}${row.folder ? ` in ${row.folder}` : ''}`,
  );
}

const options = { text: '', archived: false, collapsed: new Set<string>() };

test('waiting sessions come first, others are grouped by folder, and equal names show their path', () => {
  expect(rowTitles(buildRows(all, options))).toEqual([
    '- Waiting for you 1',
    'ledger in books',
    '- stables (/home/ann/stables) 2',
    'gate',
    'oats',
    '- stables (/srv/stables) 1',
    'hay',
    '- books 1',
    'Müsli',
  ]);
});

test('groups collapse except while filtering', () => {
  const collapsed = new Set(['file:///home/ann/stables']);
  expect(rowTitles(buildRows(all, { ...options, collapsed }))).not.toContain('gate');
  expect(rowTitles(buildRows(all, { ...options, collapsed, text: 'ANN gate' }))).toEqual(['- stables 1', 'gate']);
});

test('filtering ignores case and accents in titles, folders and tags', () => {
  const found = (text: string) => rowTitles(buildRows(all, { ...options, text })).filter((row) => !row.startsWith('-'));
  expect(found('musli')).toEqual(['Müsli']);
  expect(found('LATER books')).toEqual(['Müsli']);
  expect(found('/srv')).toEqual(['hay']);
  expect(found('nowhere')).toEqual([]);
});

test('archived sessions are a separate list', () => {
  expect(rowTitles(buildRows(all, { ...options, archived: true }))).toEqual(['- stables 1', 'old']);
});

test('a session without folder, title or tag is listed', () => {
  const bare: SessionSummary = { resource: 'p:/1', provider: 'p', title: '', status: 1, createdAt: '', modifiedAt: '' };
  expect(rowTitles(buildRows([bare], options))).toEqual(['- No folder 1', '']);
  expect(sessionTag({ ...bare, _meta: { hostler: 'something newer' } })).toBeUndefined();
});

test('recent folders are unique', () => {
  expect(recentFolders(all, 2)).toEqual(['file:///home/ann/stables', 'file:///home/ann/books']);
});

test('a failed page is not loaded again automatically', () => {
  const view = { hasMore: true, loading: false };
  expect(shouldLoadMore(view)).toBe(true);
  expect(shouldLoadMore({ ...view, error: new Error('The disk is gone.') })).toBe(false);
  expect(shouldLoadMore({ ...view, loading: true })).toBe(false);
  expect(shouldLoadMore({ ...view, hasMore: false })).toBe(false);
});

test('query filters are parsed and replaced individually', () => {
  const query = 'login "the gate" after:7d -test workspace:"/home/ann/my books" -tool:Bash';
  expect(parseQuery(query)).toEqual({
    words: 'login "the gate" -test -tool:Bash',
    filters: { after: '7d', workspace: '/home/ann/my books' },
  });
  expect(withFilter(query, 'after', '24h')).toBe(
    'login "the gate" -test workspace:"/home/ann/my books" -tool:Bash after:24h',
  );
  expect(withFilter('hay after:7d', 'after', undefined)).toBe('hay');
  expect(withFilter('hay', 'file', 'a b"')).toBe('hay file:"a b"');
  expect(parseQuery('')).toEqual({ words: '', filters: {} });
});

test('matches are highlighted, and invalid ranges are ignored', () => {
  const text = (pieces: ReturnType<typeof highlightMatches>) =>
    pieces.map((piece) => (piece.isMatch ? `[${piece.text}]` : piece.text)).join('');
  expect(text(highlightMatches('a 😀 bé', [[5, 7]]))).toBe('a 😀 [bé]');
  expect(
    text(
      highlightMatches('one two', [
        [4, 7],
        [0, 3],
      ]),
    ),
  ).toBe('[one] [two]');
  expect(
    text(
      highlightMatches('one', [
        [0, 2],
        [1, 9],
        [7, 8],
      ]),
    ),
  ).toBe('[on][e]');
  expect(highlightMatches('', [])).toEqual([]);
});

test('a typed path splits into a folder and a name prefix', () => {
  expect(parseTypedPath('', '/home/ann')).toEqual({ folder: '/home/ann', prefix: '' });
  expect(parseTypedPath('~/st', '/home/ann/')).toEqual({ folder: '/home/ann', prefix: 'st' });
  expect(parseTypedPath('/s', '/home/ann')).toEqual({ folder: '/', prefix: 's' });
  expect(parseTypedPath('books/2026/', '/home/ann')).toEqual({ folder: '/home/ann/books/2026', prefix: '' });
  expect(parseTypedPath('/a/../b//c', '/')).toEqual({ folder: '/b', prefix: 'c' });
  expect(completeFolderNames(['src', 'Stables', '.git', 'a'], 's')).toEqual(['src', 'Stables']);
  expect(completeFolderNames(['src', '.git'], '')).toEqual(['src']);
  expect(completeFolderNames(['src', '.git'], '.')).toEqual(['.git']);
});

test('folder paths round-trip through URIs', () => {
  expect(folderUri('/home/ann/my books#1')).toBe('file:///home/ann/my%20books%231');
  expect(folderUri('C:/horses')).toBe('file:///C:/horses');
  expect(displayPath('file:///home/ann/my%20books', 'file:///home/ann/')).toBe('~/my books');
  expect(displayPath('file:///home/anna', 'file:///home/ann/')).toBe('/home/anna');
  expect(displayPath('file:///home/ann/', 'file:///home/ann')).toBe('~');
  expect(parentPath('/home/ann')).toBe('/home');
  expect(parentPath('/home')).toBe('/');
  expect(parentPath('/')).toBeUndefined();
});
