/** Shortcut registry and dispatcher. */

import { expect, test } from 'vitest';
import { typesText } from '../src/core/message-field-focus.ts';
import { ShortcutDispatcher } from '../src/core/shortcut-dispatcher.ts';
import {
  isChord,
  type KeyPress,
  keyCaps,
  normalizeKeyPress,
  SCOPE_HEADINGS,
  SHORTCUTS,
  type Shortcut,
  type ShortcutId,
  type ShortcutScope,
  shortcutsInScope,
  strokesOf,
} from '../src/core/shortcut-registry.ts';

function key(name: string, more: Partial<KeyPress> = {}): KeyPress {
  return { key: name, code: '', ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more };
}

const all = Object.entries<Shortcut>(SHORTCUTS);

test('key presses are normalized across keyboards', () => {
  expect(normalizeKeyPress(key('j'))).toBe('j');
  expect(normalizeKeyPress(key('J', { shiftKey: true }))).toBe('shift+j');
  expect(normalizeKeyPress(key('?', { shiftKey: true }))).toBe('?');
  expect(normalizeKeyPress(key('K', { ctrlKey: true, shiftKey: true }))).toBe('mod+shift+k');
  expect(normalizeKeyPress(key('k', { metaKey: true }))).toBe('mod+k');
  expect(normalizeKeyPress(key('Enter', { shiftKey: true }))).toBe('shift+Enter');
  expect(normalizeKeyPress(key(' '))).toBe('Space');
  expect(normalizeKeyPress(key('о', { code: 'KeyJ' }))).toBe('j');
  expect(normalizeKeyPress(key('é', { code: 'Digit2' }))).toBe('é');
  expect(normalizeKeyPress(key('[', { ctrlKey: true, altKey: true }))).toBe('[');
});

test('global shortcuts need a modifier, except Escape', () => {
  const bare = all.filter(([, shortcut]) => shortcut.scope === 'global' && !strokesOf(shortcut).every(isChord));
  expect(bare.map(([id]) => id)).toEqual(['toField']);
});

test('no two shortcuts of a scope share a key, and letters are never global', () => {
  for (const [scope] of SCOPE_HEADINGS) {
    const ways = shortcutsInScope(scope).flatMap(strokesOf);
    expect(new Set(ways).size, scope).toBe(ways.length);
  }
  // Sentences that start with these keys answer nothing.
  const answers = [...strokesOf(SHORTCUTS.option), ...strokesOf(SHORTCUTS.refuse)];
  expect(answers.filter((way) => !/^\d$/.test(way))).toEqual([]);
});

test('the shortcuts dialog lists every registered shortcut once', () => {
  const listed = SCOPE_HEADINGS.flatMap(([scope]) => shortcutsInScope(scope));
  expect(new Set(listed)).toEqual(new Set(all.map(([, shortcut]) => shortcut)));
  expect(listed.length).toBe(all.length);
  expect(new Set(listed.map(({ label, scope }) => `${scope} ${label}`)).size).toBe(all.length);
});

/** A part of the page that contains some elements. */
function part(...inside: object[]): Element {
  return { contains: (other: object) => inside.includes(other) } as unknown as Element;
}

function setUp(letters = true): {
  keys: ShortcutDispatcher;
  found: (pressed: KeyPress, element?: object, isField?: boolean) => string[];
} {
  const keys = new ShortcutDispatcher(() => letters);
  const found = (pressed: KeyPress, element?: object, isField = false) =>
    keys.find(pressed, { element: element as Element, isField }).map(({ id }) => id);
  return { keys, found };
}

test('letters work only in the scope that contains the focus', () => {
  const { keys, found } = setUp();
  const [row, card, other] = [{}, {}, {}];
  const run = () => undefined;
  keys.bind({ id: 'archive', run, within: () => part(row) }, { id: 'edit', run, within: () => part(card) });
  keys.bind({ id: 'palette', run }, { id: 'refuse', run, within: () => undefined });
  expect(found(key('e'), row)).toEqual(['archive']);
  expect(found(key('e'), card)).toEqual(['edit']);
  expect(found(key('e'), other)).toEqual([]);
  expect(found(key('e'))).toEqual([]);
  expect(found(key('0'), card)).toEqual([]);
  expect(found(key('e'), row, true), 'a field in the list').toEqual([]);
  expect(found(key('k', { ctrlKey: true }), row, true)).toEqual(['palette']);
  expect(found(key('e', { ctrlKey: true }), row)).toEqual([]);
  expect(found(key('e', { altKey: true }), row)).toEqual([]);
  expect(found(key('E', { shiftKey: true }), row)).toEqual([]);
});

test('letters can be switched off without affecting chords', () => {
  const { keys, found } = setUp(false);
  const row = {};
  const run = () => undefined;
  const scoped = (Object.keys(SHORTCUTS) as ShortcutId[]).map((id) => ({ id, run, within: () => part(row) }));
  keys.bind(...scoped);
  const scopes: readonly ShortcutScope[] = ['list', 'card'];
  for (const shortcut of scopes.flatMap(shortcutsInScope))
    for (const way of strokesOf(shortcut)) expect(found(key(way), row), way).toEqual([]);
  expect(found(key('k', { ctrlKey: true }), row)).toEqual(['palette']);
  expect(found(key('Escape'), row)).toEqual(['toField']);
});

test('focused bindings come first, then the latest, and unavailable ones are skipped', () => {
  const { keys, found } = setUp();
  const handle = {};
  let open = false;
  const run = () => undefined;
  keys.bind({ id: 'moveUp', run, within: () => part(handle) });
  const unbind = keys.bind({ id: 'previousMessage', run, when: () => open });
  const up = key('ArrowUp', { altKey: true });
  expect(found(up, handle)).toEqual(['moveUp']);
  open = true;
  expect(found(up, handle)).toEqual(['moveUp', 'previousMessage']);
  expect(found(up, {}, true)).toEqual(['previousMessage']);
  unbind();
  expect(found(up, {})).toEqual([]);
});

test.each<[string, Partial<KeyPress> & { graph?: boolean; mac?: boolean }, boolean]>([
  ['y', {}, true],
  ['Y', { shiftKey: true }, true],
  ['1', {}, true],
  ['?', { shiftKey: true }, true],
  ['ß', {}, true],
  ['я', {}, true],
  ['😀', {}, true],
  ['Dead', {}, true],
  ['Process', {}, true],
  ['€', { ctrlKey: true, altKey: true }, true],
  ['@', { altKey: true, graph: true }, true],
  ['ø', { altKey: true, mac: true }, true],
  ['Dead', { altKey: true, mac: true }, true],
  ['f', { altKey: true }, false],
  ['c', { ctrlKey: true }, false],
  ['c', { metaKey: true, mac: true }, false],
  [' ', {}, false],
  ['Enter', {}, false],
  ['Escape', {}, false],
  ['ArrowDown', {}, false],
  ['F5', {}, false],
  ['Unidentified', {}, false],
])('%s with %j types a character: %s', (name, { graph = false, mac = false, ...more }, expected) => {
  expect(
    typesText({ ...key(name, more), getModifierState: (state: string) => graph && state === 'AltGraph' }, mac),
  ).toBe(expected);
});

test('key caps', () => {
  expect(keyCaps('Mod+Shift+k', true)).toEqual(['⌘', '⇧', 'K']);
  expect(keyCaps('Mod+k', false)).toEqual(['Ctrl', 'K']);
  expect(keyCaps('Escape Escape', false)).toEqual(['Esc', 'Esc']);
  expect(keyCaps('ArrowUp', false)).toEqual(['↑']);
  expect(keyCaps('Mod++', false)).toEqual(['Ctrl', '+']);
});
