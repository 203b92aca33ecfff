/** Keys, completion and history of the message field. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChatState, CompletionItem } from '../../src/ahp/index.ts';
import { describeCompletion, findTriggerWord, insertCompletion } from '../../src/composer/completion-text.ts';
import {
  type ComposerKey,
  type ComposerKeyContext,
  DOUBLE_ESCAPE_MS,
  resolveKey,
} from '../../src/composer/composer-keys.ts';
import { MessageHistory, ownMessages } from '../../src/composer/message-history.ts';
import { SHORTCUTS, shortcutsInScope } from '../../src/core/shortcut-registry.ts';

function key(name: string): ComposerKey {
  const parts = name.split('+');
  return {
    key: parts.at(-1) ?? '',
    shiftKey: parts.includes('Shift'),
    ctrlKey: parts.includes('Ctrl'),
    metaKey: parts.includes('Meta'),
    altKey: parts.includes('Alt'),
  };
}

const idle: ComposerKeyContext = {
  isImeActive: false,
  isTouch: false,
  isRunning: false,
  hasPendingRequest: false,
  isCompletionOpen: false,
  canBrowseHistory: false,
  lastEscapeAt: Number.NEGATIVE_INFINITY,
  now: 10_000,
};

test.each<[string, Partial<ComposerKeyContext>, ReturnType<typeof resolveKey>]>([
  ['Enter', {}, 'send'],
  ['Enter', { isRunning: true }, 'send'],
  ['Enter', { isTouch: true }, undefined],
  ['Enter', { isImeActive: true }, undefined],
  ['Shift+Enter', {}, undefined],
  ['Shift+Enter', { isCompletionOpen: true }, undefined],
  ['Ctrl+Enter', {}, 'send'],
  ['Ctrl+Enter', { isRunning: true }, 'steer'],
  ['Meta+Enter', { isRunning: true, isTouch: true }, 'steer'],
  ['Ctrl+Enter', { isRunning: true, isCompletionOpen: true }, 'steer'],
  ['Escape', {}, undefined],
  ['Escape', { isRunning: true }, 'armStop'],
  ['Escape', { isRunning: true, lastEscapeAt: 10_000 - DOUBLE_ESCAPE_MS + 1 }, 'stop'],
  ['Escape', { isRunning: true, lastEscapeAt: 10_000 - DOUBLE_ESCAPE_MS }, 'armStop'],
  ['Escape', { isRunning: true, hasPendingRequest: true }, undefined],
  ['Escape', { isRunning: true, hasPendingRequest: true, lastEscapeAt: 9_999 }, undefined],
  ['Escape', { isRunning: true, isCompletionOpen: true }, 'dismissCompletion'],
  ['Tab', {}, undefined],
  ['Tab', { isCompletionOpen: true }, 'acceptCompletion'],
  ['Shift+Tab', { isCompletionOpen: true }, undefined],
  ['Enter', { isCompletionOpen: true }, 'acceptCompletion'],
  ['Enter', { isCompletionOpen: true, isImeActive: true }, undefined],
  ['ArrowDown', { isCompletionOpen: true, canBrowseHistory: true }, 'nextCompletion'],
  ['ArrowUp', { isCompletionOpen: true }, 'previousCompletion'],
  ['ArrowUp', { canBrowseHistory: true }, 'older'],
  ['ArrowDown', { canBrowseHistory: true }, 'newer'],
  ['ArrowUp', {}, undefined],
  ['Shift+ArrowUp', { canBrowseHistory: true }, undefined],
  ['a', { isRunning: true, isCompletionOpen: true }, undefined],
])('%s with %j resolves to %s', (name, now, meaning) => {
  expect(resolveKey(key(name), { ...idle, ...now })).toBe(meaning);
});

test('the shortcuts dialog matches the keys of the message field', () => {
  const now = { ...idle, isRunning: true, canBrowseHistory: true };
  const after: Record<string, Partial<ComposerKeyContext>> = { stop: { lastEscapeAt: now.now - 1 } };
  const resolved = shortcutsInScope('composer').map(({ keys }) => {
    const id =
      Object.entries(SHORTCUTS).find(([, known]) => known.scope === 'composer' && known.keys === keys)?.[0] ?? '';
    const last = String(keys).split(' ').at(-1)?.replace('Mod', 'Ctrl') ?? '';
    return [id, resolveKey(key(last), { ...now, ...after[id] })];
  });
  expect(resolved).toEqual([
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
])('in %j at %d the trigger word is %j', (text, cursor, span) => {
  expect(findTriggerWord(text, cursor, TRIGGERS)).toEqual(span);
});

test('a completion replaces its word and places the cursor after a space', () => {
  const item = { insertText: '@src/main.rs', rangeStart: 5, rangeEnd: 8 };
  expect(insertCompletion('look @ma', 8, item)).toEqual({ text: 'look @src/main.rs ', cursor: 18 });
  expect(insertCompletion('look @ma please', 8, item)).toEqual({ text: 'look @src/main.rs please', cursor: 18 });
  expect(insertCompletion('a', 1, { insertText: 'b' })).toEqual({ text: 'ab ', cursor: 3 });
});

test('invalid ranges from the host keep the surrounding text', () => {
  const offset = fc.integer({ min: -5, max: 30 });
  fc.assert(
    fc.property(fc.string({ maxLength: 20 }), offset, offset, offset, (text, cursor, rangeStart, rangeEnd) => {
      const after = insertCompletion(text, Math.max(0, Math.min(cursor, text.length)), {
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

test('commands show their arguments without attaching, and files show their path', () => {
  const command: CompletionItem = {
    insertText: '/rename',
    attachment: {
      type: 'simple',
      label: '/rename',
      displayKind: 'command',
      _meta: { description: 'd', argumentHint: 'T' },
    },
  };
  expect(describeCompletion(command, [])).toEqual({
    icon: 'command',
    label: '/rename',
    hint: 'T',
    detail: 'd',
    isAttachment: false,
  });
  const file: CompletionItem = {
    insertText: '@src/a b.rs',
    attachment: { type: 'resource', label: 'a b.rs', uri: 'file:///home/src/a%20b.rs' },
  };
  expect(describeCompletion(file, ['file:///home'])).toMatchObject({
    icon: 'file',
    detail: 'src/a b.rs',
    isAttachment: true,
  });
  expect(describeCompletion(file, ['file:///ho'])).toMatchObject({ detail: '/home/src/a b.rs' });
});

test('the history lists own messages, newest first', () => {
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

test('history browsing starts and ends with an empty field', () => {
  const history = new MessageHistory();
  const sentTexts = ['two', 'one'];
  expect(history.canBrowse('typed')).toBe(false);
  expect(history.older('', sentTexts)).toBe('two');
  expect(history.older('two', sentTexts)).toBe('one');
  expect(history.older('one', sentTexts)).toBeUndefined();
  expect(history.newer('one', sentTexts)).toBe('two');
  expect(history.newer('two', sentTexts)).toBe('');
  expect(history.newer('', sentTexts)).toBeUndefined();
  expect(history.older('two, changed', sentTexts)).toBeUndefined();
});

test('discarded text comes first in the history', () => {
  const history = new MessageHistory();
  history.addDiscarded('overwritten');
  history.addDiscarded(' ');
  expect(history.older('', ['said'])).toBe('overwritten');
  expect(history.older('overwritten', ['said'])).toBe('said');
});
