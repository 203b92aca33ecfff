/** The field here, the draft there: who wins when. */

import { expect, test } from 'vitest';
import type { Attachment } from '../../src/ahp/index.ts';
import {
  adoptRemote,
  EMPTY_DRAFT,
  onRemoteDraft,
  onSaveFailed,
  onSaving,
  onSent,
  onStored,
  onTyped,
  TYPING_TIMEOUT_MS,
} from '../../src/composer/draft-reconciliation.ts';
import { EMPTY_CONTENT, isSameContent, type MessageContent } from '../../src/composer/message-content.ts';

const words = (text: string, ...attachments: Attachment[]): MessageContent => ({ text, attachments });
const embedded: Attachment = { type: 'embeddedResource', label: 'a.txt', data: 'QQ==', contentType: 'text/plain' };
const named: Attachment = { type: 'resource', label: 'a.txt', uri: 'ahp-content:/1' };

test('a draft of another client is taken by a field that nobody types in', () => {
  expect(onRemoteDraft(EMPTY_DRAFT, words('from the phone'), 0).local.text).toBe('from the phone');
});

test('what is typed here wins over news, and is what the host is told next', () => {
  const mine = onTyped(EMPTY_DRAFT, words('mine'), 0);
  const after = onRemoteDraft(mine, words('theirs'), 10 * TYPING_TIMEOUT_MS);
  expect([after.local.text, after.isUnsaved]).toEqual(['mine', true]);
  expect(onSaving(after)).toMatchObject({ remote: words('mine'), isUnsaved: false });
});

test('one’s own echo is no news, also when it comes late', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('one'), 0));
  const further = onTyped(told, words('one two'), 100);
  expect(onRemoteDraft(further, words('one'), 200)).toBe(further);
});

test('between two keys nobody else changes the field; later the host is right', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('mine'), 0));
  const during = onRemoteDraft(told, words('theirs'), TYPING_TIMEOUT_MS - 1);
  expect(during.local.text).toBe('mine');
  expect(adoptRemote(during, TYPING_TIMEOUT_MS - 1)).toBe(during);
  expect(adoptRemote(during, TYPING_TIMEOUT_MS).local.text).toBe('theirs');
});

test('whoever goes on typing before that keeps the field', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('mine'), 0));
  const on = onTyped(onRemoteDraft(told, words('theirs'), 100), words('mine!'), 200);
  expect(adoptRemote(on, 10 * TYPING_TIMEOUT_MS).local.text).toBe('mine!');
});

test('a message that was sent elsewhere takes its draft along', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('send me'), 0));
  expect(onRemoteDraft(told, EMPTY_CONTENT, TYPING_TIMEOUT_MS).local).toEqual(EMPTY_CONTENT);
});

test('a sent message leaves an empty field, and its late echo does not come back', () => {
  const gone = onSent(onSaving(onTyped(EMPTY_DRAFT, words('hello'), 0)));
  expect([gone.local, gone.isUnsaved]).toEqual([EMPTY_CONTENT, false]);
  expect(onRemoteDraft(gone, EMPTY_CONTENT, 1)).toBe(gone);
});

test('typing back to what the host has leaves nothing to tell', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('ab'), 0));
  const less = onTyped(told, words('a'), 1);
  expect([less.isUnsaved, onTyped(less, words('ab'), 2).isUnsaved]).toEqual([true, false]);
});

test('a save that failed is to be made again, unless it would say nothing new', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('mine'), 0));
  expect(onSaveFailed(told, EMPTY_CONTENT).isUnsaved).toBe(true);
  expect(onSaveFailed(told, words('mine')).isUnsaved).toBe(false);
});

test('contents that the host keeps from now on are not told again', () => {
  const told = onSaving(onTyped(EMPTY_DRAFT, words('look', embedded), 0));
  const now = onStored(told, words('look', named), words('look', named));
  expect(now.isUnsaved).toBe(false);
  expect(onRemoteDraft(now, words('look', { ...named, _meta: { hostler: {} } }), 10 * TYPING_TIMEOUT_MS)).toBe(now);
  const further = onStored(onTyped(told, words('look!', embedded), 1), words('look!', named), words('look', named));
  expect([further.isUnsaved, further.local.text]).toEqual([true, 'look!']);
});

test('contents are the same if words and attachments are, whatever the host notes beside them', () => {
  expect(isSameContent(words('a', named), words('a', { ...named, sizeHint: 3 }))).toBe(true);
  expect(isSameContent(words('a', named), words('a', { ...named, uri: 'ahp-content:/2' }))).toBe(false);
  expect(isSameContent(words('a', named), words('a'))).toBe(false);
  expect(isSameContent(words('a', named), words('a', named, named))).toBe(false);
  expect(isSameContent(words('a'), words('b'))).toBe(false);
});
