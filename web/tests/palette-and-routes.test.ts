/** The command palette, sign-in codes and routes. */

import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/ahp/index.ts';
import { formatRoute, parseRoute, type Route } from '../src/core/route.ts';
import { findPaletteEntries, type PaletteEntry } from '../src/shell/command-palette.ts';
import { parsePastedCode } from '../src/shell/sign-in.ts';

function session(title: string, status: number): SessionSummary {
  return { resource: `p:/${title}`, provider: 'p', title, status, createdAt: '2026', modifiedAt: '2026' };
}

const sessions = [session('Mend the gate', 33), session('Feed plan', 56), session('Old plan', 97)];
const opened: string[] = [];
const action = (label: string): PaletteEntry => ({ key: label, label, icon: 'add', run: () => undefined });

function offered(text: string): string[] {
  return findPaletteEntries(text, sessions, [action('New session'), action('Plan nothing')], ({ title }) => {
    opened.push(title);
  }).map(({ label }) => label);
}

test('the palette lists waiting sessions first, then others, then actions', () => {
  expect(offered('')).toEqual(['Feed plan', 'Mend the gate', 'New session', 'Plan nothing']);
});

test('the palette matches actions and sessions, except archived ones', () => {
  expect(offered('PLAN')).toEqual(['Plan nothing', 'Feed plan']);
  expect(offered('nowhere')).toEqual([]);
});

test('a palette entry opens its session', () => {
  findPaletteEntries('gate', sessions, [], ({ title }) => opened.push(title))[0]?.run();
  expect(opened).toEqual(['Mend the gate']);
});

test('a sign-in link or its code is accepted, and nothing else', () => {
  expect(parsePastedCode(' http://127.0.0.1:8137/session/x#link=Ab-9_z ')).toBe('Ab-9_z');
  expect(parsePastedCode('Ab-9_z')).toBe('Ab-9_z');
  expect(parsePastedCode('')).toBeUndefined();
  expect(parsePastedCode('http://127.0.0.1:8137/')).toBeUndefined();
});

test('every route round-trips through its URL', () => {
  const routes: Route[] = [
    { view: 'home' },
    { view: 'new' },
    { view: 'new', directory: 'file:///home/ann/my%20books' },
    { view: 'search', query: 'hay & "oats" after:7d' },
    { view: 'session', session: 'claude:/1f0c' },
    { view: 'session', session: 'claude:/1f0c', chat: 'ahp-chat://default/x', turn: 'a b' },
  ];
  for (const route of routes) {
    const { pathname, search } = new URL(formatRoute(route), 'http://host');
    expect(parseRoute(pathname, search)).toEqual(route);
  }
  expect(parseRoute('/session/%E0%A4%A', '')).toEqual({ view: 'home' });
});
