/** Reconciliation of local text and remote drafts. */

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

const content = (text: string, ...attachments: Attachment[]): MessageContent => ({ text, attachments });
const embedded: Attachment = { type: 'embeddedResource', label: 'a.txt', data: 'QQ==', contentType: 'text/plain' };
const named: Attachment = { type: 'resource', label: 'a.txt', uri: 'ahp-content:/1' };

test('an idle field adopts a remote draft', () => {
  expect(onRemoteDraft(EMPTY_DRAFT, content('from the phone'), 0).local.text).toBe('from the phone');
});

test('local text wins over a remote draft and is saved next', () => {
  const mine = onTyped(EMPTY_DRAFT, content('mine'), 0);
  const after = onRemoteDraft(mine, content('theirs'), 10 * TYPING_TIMEOUT_MS);
  expect([after.local.text, after.isUnsaved]).toEqual(['mine', true]);
  expect(onSaving(after)).toMatchObject({ remote: content('mine'), isUnsaved: false });
});

test('the echo of a save is ignored, even when it is late', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('one'), 0));
  const further = onTyped(saved, content('one two'), 100);
  expect(onRemoteDraft(further, content('one'), 200)).toBe(further);
});

test('a remote draft waits while the user types, and is adopted later', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('mine'), 0));
  const during = onRemoteDraft(saved, content('theirs'), TYPING_TIMEOUT_MS - 1);
  expect(during.local.text).toBe('mine');
  expect(adoptRemote(during, TYPING_TIMEOUT_MS - 1)).toBe(during);
  expect(adoptRemote(during, TYPING_TIMEOUT_MS).local.text).toBe('theirs');
});

test('continued typing keeps the local text', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('mine'), 0));
  const on = onTyped(onRemoteDraft(saved, content('theirs'), 100), content('mine!'), 200);
  expect(adoptRemote(on, 10 * TYPING_TIMEOUT_MS).local.text).toBe('mine!');
});

test('a message sent elsewhere clears the draft', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('send me'), 0));
  expect(onRemoteDraft(saved, EMPTY_CONTENT, TYPING_TIMEOUT_MS).local).toEqual(EMPTY_CONTENT);
});

test('a sent message clears the field, and its late echo does not restore it', () => {
  const gone = onSent(onSaving(onTyped(EMPTY_DRAFT, content('hello'), 0)));
  expect([gone.local, gone.isUnsaved]).toEqual([EMPTY_CONTENT, false]);
  expect(onRemoteDraft(gone, EMPTY_CONTENT, 1)).toBe(gone);
});

test('typing back to the saved text leaves nothing to save', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('ab'), 0));
  const less = onTyped(saved, content('a'), 1);
  expect([less.isUnsaved, onTyped(less, content('ab'), 2).isUnsaved]).toEqual([true, false]);
});

test('a failed save is repeated unless it changes nothing', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('mine'), 0));
  expect(onSaveFailed(saved, EMPTY_CONTENT).isUnsaved).toBe(true);
  expect(onSaveFailed(saved, content('mine')).isUnsaved).toBe(false);
});

test('stored attachments are not uploaded again', () => {
  const saved = onSaving(onTyped(EMPTY_DRAFT, content('look', embedded), 0));
  const now = onStored(saved, content('look', named), content('look', named));
  expect(now.isUnsaved).toBe(false);
  expect(onRemoteDraft(now, content('look', { ...named, _meta: { hostler: {} } }), 10 * TYPING_TIMEOUT_MS)).toBe(now);
  const further = onStored(
    onTyped(saved, content('look!', embedded), 1),
    content('look!', named),
    content('look', named),
  );
  expect([further.isUnsaved, further.local.text]).toEqual([true, 'look!']);
});

test('contents are equal when text and attachments are, regardless of metadata', () => {
  expect(isSameContent(content('a', named), content('a', { ...named, sizeHint: 3 }))).toBe(true);
  expect(isSameContent(content('a', named), content('a', { ...named, uri: 'ahp-content:/2' }))).toBe(false);
  expect(isSameContent(content('a', named), content('a'))).toBe(false);
  expect(isSameContent(content('a', named), content('a', named, named))).toBe(false);
  expect(isSameContent(content('a'), content('b'))).toBe(false);
});
