/** Workspace trust. */

import { expect, test } from 'vitest';
import type { ChatInputRequest } from '../src/ahp/index.ts';
import { readFolderTrust } from '../src/core/host-metadata.ts';
import type { ConfigurationItem, TrustReport } from '../src/core/hostler-extensions.ts';
import { isTrustRequest } from '../src/tools/question-answers.ts';
import { decisionLabel, groupTrustItems, isRestricted, trustSummary } from '../src/trust/folder-trust.ts';

function item(kind: string, name: string, more: Partial<ConfigurationItem> = {}): ConfigurationItem {
  return { kind, name, source: '.claude/settings.json', hash: name, ...more };
}

function report(state: string, items: readonly ConfigurationItem[], more: Partial<TrustReport> = {}): TrustReport {
  return { directory: '/src/app', state, configuration: { fingerprint: 'f', items }, ...more };
}

test('folder configuration is grouped by kind, including unknown kinds', () => {
  const groups = groupTrustItems(
    report('undecided', [
      item('hook', 'Stop: ./a', { blocked: 'Not supported.' }),
      item('environment', 'A=1'),
      item('hook', 'Stop: ./b'),
      item('toString', 'x'),
    ]),
  );
  expect(groups.map(({ title, items }) => [title, items.map(({ name }) => name)])).toEqual([
    ['Hooks', ['Stop: ./a', 'Stop: ./b']],
    ['Environment variables', ['A=1']],
    ['toString', ['x']],
  ]);
  expect(groups[0]?.items[0]).toMatchObject({ blocked: 'Not supported.', change: undefined });
});

test('a difference marks added, changed and removed items', () => {
  const [added, changed, removed, same] = ['new', 'edited', 'gone', 'same'].map((name) => item('hook', name)) as [
    ConfigurationItem,
    ConfigurationItem,
    ConfigurationItem,
    ConfigurationItem,
  ];
  const difference = { added: [added], changed: [changed], removed: [removed] };
  const [group] = groupTrustItems(report('changed', [same, added, changed], { difference }));
  expect(group?.items.map(({ name, change }) => [name, change])).toEqual([
    ['same', undefined],
    ['new', 'added'],
    ['edited', 'changed'],
    ['gone', 'removed'],
  ]);
});

test('folder configuration cannot hide or reverse text', () => {
  const [group] = groupTrustItems(
    report('undecided', [item('hook\u202e', 'a\u202eb', { source: 'c\u200bd', blocked: 'e\u2066f' })]),
  );
  expect(group).toEqual({
    title: 'hook⟨U+202E⟩',
    items: [{ name: 'a⟨U+202E⟩b', source: 'c⟨U+200B⟩d', blocked: 'e⟨U+2066⟩f', change: undefined }],
  });
});

test('only trusted folders and folders without configuration are unrestricted', () => {
  for (const state of ['undecided', 'changed', 'restricted', 'refused', 'something new'])
    expect(isRestricted(state)).toBe(true);
  for (const state of ['trusted', 'empty']) expect(isRestricted(state)).toBe(false);
  expect(trustSummary(report('refused', [], { reason: 'settings.json is not JSON' }))).toContain(
    'settings.json is not JSON',
  );
  expect(trustSummary(report('trusted', [], { trustedBy: 'parent', inheritedFrom: '/src/app' }))).toBe(
    'Trusted through /src/app.',
  );
  expect(trustSummary(report('something new', []))).toContain('ignored');
  const folder = { path: '/src/app/a', items: [] };
  expect(decisionLabel({ ...folder, decision: 'restrict' })).toBe('Not trusted');
  expect(decisionLabel({ ...folder, decision: 'trust', inheritedFrom: '/src/app' })).toBe('Trusted through /src/app');
});

test('folder trust is read from session metadata when present', () => {
  const trust = { state: 'changed', directory: '/src/app', items: 3 };
  expect(readFolderTrust({ hostler: { trust } })).toEqual({ state: 'changed', directory: '/src/app' });
  for (const meta of [undefined, {}, { hostler: { trust: 'yes' } }, { hostler: { trust: { state: 'trusted' } } }])
    expect(readFolderTrust(meta)).toBeUndefined();
});

test('a trust request is distinguished from other questions', () => {
  const request = (id: string, ...options: string[]): ChatInputRequest => ({
    id: 'r',
    questions: [
      { kind: 'single-select', id, message: 'Trust?', options: options.map((label) => ({ id: label, label })) },
    ],
  });
  expect(isTrustRequest(request('folder', 'trust', 'trust-subfolders', 'restrict'))).toBe(true);
  expect(isTrustRequest(request('folder', 'red', 'blue'))).toBe(false);
  expect(isTrustRequest(request('0', 'trust', 'restrict'))).toBe(false);
  expect(isTrustRequest({ id: 'r' })).toBe(false);
});
