/** Keys, completion, history: what happens in the field. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChatState, CompletionItem } from '../../src/ahp/index.ts';
import { SHORTCUTS, shortcutsInScope } from '../../src/app/shortcut-registry.ts';
import { completed, moved, offer, triggered } from '../../src/composer/completion-text.ts';
import { type Circumstances, type Key, meaningOf, TWICE } from '../../src/composer/composer-keys.ts';
import { History, ownMessages } from '../../src/composer/message-history.ts';

function key(name: string): Key {
  const parts = name.split('+');
  return {
    key: parts.at(-1) ?? '',
    shiftKey: parts.includes('Shift'),
    ctrlKey: parts.includes('Ctrl'),
    metaKey: parts.includes('Meta'),
    altKey: parts.includes('Alt'),
  };
}

const idle: Circumstances = {
  composing: false,
  touch: false,
  running: false,
  isAsked: false,
  offering: false,
  mayBrowse: false,
  escapedAt: Number.NEGATIVE_INFINITY,
  now: 10_000,
};

test.each<[string, Partial<Circumstances>, ReturnType<typeof meaningOf>]>([
  ['Enter', {}, 'send'],
  ['Enter', { running: true }, 'send'],
  ['Enter', { touch: true }, undefined],
  ['Enter', { composing: true }, undefined],
  ['Shift+Enter', {}, undefined],
  ['Shift+Enter', { offering: true }, undefined],
  ['Ctrl+Enter', {}, 'send'],
  ['Ctrl+Enter', { running: true }, 'steer'],
  ['Meta+Enter', { running: true, touch: true }, 'steer'],
  ['Ctrl+Enter', { running: true, offering: true }, 'steer'],
  ['Escape', {}, undefined],
  ['Escape', { running: true }, 'askToStop'],
  ['Escape', { running: true, escapedAt: 10_000 - TWICE + 1 }, 'stop'],
  ['Escape', { running: true, escapedAt: 10_000 - TWICE }, 'askToStop'],
  ['Escape', { running: true, isAsked: true }, undefined],
  ['Escape', { running: true, isAsked: true, escapedAt: 9_999 }, undefined],
  ['Escape', { running: true, offering: true }, 'noOffers'],
  ['Tab', {}, undefined],
  ['Tab', { offering: true }, 'takeOffer'],
  ['Shift+Tab', { offering: true }, undefined],
  ['Enter', { offering: true }, 'takeOffer'],
  ['Enter', { offering: true, composing: true }, undefined],
  ['ArrowDown', { offering: true, mayBrowse: true }, 'nextOffer'],
  ['ArrowUp', { offering: true }, 'previousOffer'],
  ['ArrowUp', { mayBrowse: true }, 'older'],
  ['ArrowDown', { mayBrowse: true }, 'newer'],
  ['ArrowUp', {}, undefined],
  ['Shift+ArrowUp', { mayBrowse: true }, undefined],
  ['a', { running: true, offering: true }, undefined],
])('%s with %j means %s', (name, now, meaning) => {
  expect(meaningOf(key(name), { ...idle, ...now })).toBe(meaning);
});

test('the help sheet lists the keys of the field as they are', () => {
  const now = { ...idle, running: true, mayBrowse: true };
  const after: Record<string, Partial<Circumstances>> = { stop: { escapedAt: now.now - 1 } };
  const meant = shortcutsInScope('composer').map(({ keys }) => {
    const id =
      Object.entries(SHORTCUTS).find(([, known]) => known.scope === 'composer' && known.keys === keys)?.[0] ?? '';
    const last = String(keys).split(' ').at(-1)?.replace('Mod', 'Ctrl') ?? '';
    return [id, meaningOf(key(last), { ...now, ...after[id] })];
  });
  expect(meant).toEqual([
    ['send', 'send'],
    ['steer', 'steer'],
    ['newLine', undefined],
    ['older', 'older'],
    ['stop', 'stop'],
  ]);
});

const TRIGGERS = ['@', '#', '/'];

test.each([
  ['@', 1, { start: 0, end: 1 }],
  ['look at @src/ma in', 15, { start: 8, end: 15 }],
  ['look at @src/ma in', 11, { start: 8, end: 11 }],
  ['a\n/re', 5, { start: 2, end: 5 }],
  ['me@example.org', 14, undefined],
  ['@src now', 8, undefined],
  ['', 0, undefined],
  ['@x', 0, undefined],
])('in %j at %d the word is %j', (text, cursor, span) => {
  expect(triggered(text, cursor, TRIGGERS)).toEqual(span);
});

test('an item takes the place of its word, and the cursor stands behind it and a space', () => {
  const item = { insertText: '@src/main.rs', rangeStart: 5, rangeEnd: 8 };
  expect(completed('look @ma', 8, item)).toEqual({ text: 'look @src/main.rs ', cursor: 18 });
  expect(completed('look @ma please', 8, item)).toEqual({ text: 'look @src/main.rs please', cursor: 18 });
  expect(completed('a', 1, { insertText: 'b' })).toEqual({ text: 'ab ', cursor: 3 });
});

test('whatever a host says about places, the text around them stays', () => {
  const offset = fc.integer({ min: -5, max: 30 });
  fc.assert(
    fc.property(fc.string({ maxLength: 20 }), offset, offset, offset, (text, cursor, rangeStart, rangeEnd) => {
      const after = completed(text, Math.max(0, Math.min(cursor, text.length)), {
        insertText: '@x',
        rangeStart,
        rangeEnd,
      });
      expect(after.text.slice(0, after.cursor).trimEnd().endsWith('@x')).toBe(true);
      expect(after.cursor).toBeLessThanOrEqual(after.text.length);
      expect(text.startsWith(after.text.slice(0, after.cursor - 3))).toBe(true);
    }),
  );
});

test('the choice goes round, and there may be none', () => {
  expect([moved(0, 1, 3), moved(2, 1, 3), moved(0, -1, 3), moved(0, 1, 0)]).toEqual([1, 0, 2, -1]);
});

test('a command is offered with its arguments and attaches nothing; a file says where it is', () => {
  const command: CompletionItem = {
    insertText: '/rename',
    attachment: {
      type: 'simple',
      label: '/rename',
      displayKind: 'command',
      _meta: { description: 'd', argumentHint: 'T' },
    },
  };
  expect(offer(command, [])).toEqual({ icon: 'command', label: '/rename', hint: 'T', detail: 'd', attaches: false });
  const file: CompletionItem = {
    insertText: '@src/a b.rs',
    attachment: { type: 'resource', label: 'a b.rs', uri: 'file:///home/src/a%20b.rs' },
  };
  expect(offer(file, ['file:///home'])).toMatchObject({ icon: 'file', detail: 'src/a b.rs', attaches: true });
  expect(offer(file, ['file:///ho'])).toMatchObject({ detail: '/home/src/a b.rs' });
});

test('one’s own words come back, the newest first, and nobody else’s', () => {
  const turn = (text: string, kind: 'user' | 'systemNotification' = 'user') => ({
    id: text,
    message: { text, origin: { kind } },
    responseParts: [],
    state: 'complete' as const,
  });
  const state: ChatState = {
    resource: 'c',
    title: '',
    status: 1,
    modifiedAt: '',
    turns: [turn('one'), turn('notice', 'systemNotification'), turn('two'), turn('one')],
    queuedMessages: [{ id: 'q', message: { text: 'three', origin: { kind: 'user' } } }],
  };
  expect(ownMessages(state)).toEqual(['three', 'one', 'two']);
  expect(ownMessages(undefined)).toEqual([]);
});

test('the walk through history begins in an empty field and ends there', () => {
  const history = new History();
  const said = ['two', 'one'];
  expect(history.mayBrowse('typed')).toBe(false);
  expect(history.older('', said)).toBe('two');
  expect(history.older('two', said)).toBe('one');
  expect(history.older('one', said)).toBeUndefined();
  expect(history.newer('one', said)).toBe('two');
  expect(history.newer('two', said)).toBe('');
  expect(history.newer('', said)).toBeUndefined();
  expect(history.older('two, changed', said)).toBeUndefined();
});

test('what left the field without being sent comes first', () => {
  const history = new History();
  history.leave('overwritten');
  history.leave(' ');
  expect(history.older('', ['said'])).toBe('overwritten');
  expect(history.older('overwritten', ['said'])).toBe('said');
});
