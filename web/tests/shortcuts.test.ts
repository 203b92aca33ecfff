/** Which key leads to what. */

import { expect, test } from 'vitest';
import { capsOf, type Pressed, type Shortcut, Shortcuts, strokeOf } from '../src/app/shortcuts.ts';

function key(name: string, more: Partial<Pressed> = {}): Pressed {
  return { key: name, code: '', ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more };
}

function make(label: string, keys: Shortcut['keys'], more: Partial<Shortcut> = {}): Shortcut {
  return { label, keys, group: 'Go', run: () => undefined, ...more };
}

test('keys are written as they are meant, whatever the keyboard', () => {
  expect(strokeOf(key('j'))).toBe('j');
  expect(strokeOf(key('J', { shiftKey: true }))).toBe('shift+j');
  expect(strokeOf(key('?', { shiftKey: true }))).toBe('?');
  expect(strokeOf(key('K', { ctrlKey: true, shiftKey: true }))).toBe('mod+shift+k');
  expect(strokeOf(key('k', { metaKey: true }))).toBe('mod+k');
  expect(strokeOf(key('Enter', { shiftKey: true }))).toBe('shift+Enter');
  expect(strokeOf(key(' '))).toBe('Space');
  expect(strokeOf(key('о', { code: 'KeyJ' }))).toBe('j');
  expect(strokeOf(key('é', { code: 'Digit2' }))).toBe('é');
  expect(strokeOf(key('[', { ctrlKey: true, altKey: true }))).toBe('[');
});

test('the last one that means something counts, until it is taken away', () => {
  const keys = new Shortcuts();
  let open = false;
  keys.add(make('page', ['Escape', 'Mod+K']));
  const remove = keys.add(make('pane', 'Escape', { when: () => open }));
  expect(keys.find(key('Escape'))?.label).toBe('page');
  open = true;
  expect(keys.find(key('Escape'))?.label).toBe('pane');
  remove();
  expect(keys.find(key('Escape'))?.label).toBe('page');
  expect(keys.all.map(({ label }) => label)).toEqual(['page']);
  expect(keys.find(key('k', { ctrlKey: true }))?.label).toBe('page');
  expect(keys.find(key('k'))).toBeUndefined();
});

test('two keys in a row are one shortcut, if they come soon', () => {
  let now = 0;
  const keys = new Shortcuts(() => now);
  keys.add(make('home', 'g i'));
  keys.add(make('info', 'i'));
  expect(keys.find(key('g'))).toBeUndefined();
  expect(keys.find(key('i'))?.label).toBe('home');
  expect(keys.find(key('i'))?.label).toBe('info');
  keys.find(key('g'));
  now = 5_000;
  expect(keys.find(key('i'))?.label).toBe('info');
  keys.find(key('g'));
  keys.find(key('x'));
  expect(keys.find(key('i'))?.label).toBe('info');
});

test('what is typed in a field is text, and a focused button keeps its keys', () => {
  const keys = new Shortcuts();
  keys.add(make('new', 'n'));
  keys.add(make('palette', 'Mod+K'));
  keys.add(make('leave', 'Escape', { inFields: true }));
  keys.add(make('open', 'Enter'));
  expect(keys.find(key('n'), 'field')).toBeUndefined();
  expect(keys.find(key('k', { metaKey: true }), 'field')?.label).toBe('palette');
  expect(keys.find(key('Escape'), 'field')?.label).toBe('leave');
  expect(keys.find(key('Enter'), 'control')).toBeUndefined();
  expect(keys.find(key('Enter'))?.label).toBe('open');
  expect(keys.find(key('n'), 'control')?.label).toBe('new');
});

test('key caps', () => {
  expect(capsOf('Mod+Shift+k', true)).toEqual(['⌘', '⇧', 'K']);
  expect(capsOf('Mod+k', false)).toEqual(['Ctrl', 'K']);
  expect(capsOf('g i', false)).toEqual(['G', 'I']);
  expect(capsOf('ArrowUp', false)).toEqual(['↑']);
  expect(capsOf('Mod++', false)).toEqual(['Ctrl', '+']);
});
