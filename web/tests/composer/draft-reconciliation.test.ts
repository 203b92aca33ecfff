/** The field here, the draft there: who wins when. */

import { expect, test } from 'vitest';
import type { Attachment } from '../../src/ahp/index.ts';
import {
  BLANK,
  heard,
  QUIET,
  renamed,
  saved,
  sent,
  settled,
  typed,
  unsaved,
} from '../../src/composer/draft-reconciliation.ts';
import { type Content, EMPTY, same } from '../../src/composer/message-content.ts';

const words = (text: string, ...attachments: Attachment[]): Content => ({ text, attachments });
const embedded: Attachment = { type: 'embeddedResource', label: 'a.txt', data: 'QQ==', contentType: 'text/plain' };
const named: Attachment = { type: 'resource', label: 'a.txt', uri: 'ahp-content:/1' };

test('a draft of another client is taken by a field that nobody types in', () => {
  expect(heard(BLANK, words('from the phone'), 0).shown.text).toBe('from the phone');
});

test('what is typed here wins over news, and is what the host is told next', () => {
  const mine = typed(BLANK, words('mine'), 0);
  const after = heard(mine, words('theirs'), 10 * QUIET);
  expect([after.shown.text, after.unsaved]).toEqual(['mine', true]);
  expect(saved(after)).toMatchObject({ known: words('mine'), unsaved: false });
});

test('one’s own echo is no news, also when it comes late', () => {
  const told = saved(typed(BLANK, words('one'), 0));
  const further = typed(told, words('one two'), 100);
  expect(heard(further, words('one'), 200)).toBe(further);
});

test('between two keys nobody else changes the field; later the host is right', () => {
  const told = saved(typed(BLANK, words('mine'), 0));
  const during = heard(told, words('theirs'), QUIET - 1);
  expect(during.shown.text).toBe('mine');
  expect(settled(during, QUIET - 1)).toBe(during);
  expect(settled(during, QUIET).shown.text).toBe('theirs');
});

test('whoever goes on typing before that keeps the field', () => {
  const told = saved(typed(BLANK, words('mine'), 0));
  const on = typed(heard(told, words('theirs'), 100), words('mine!'), 200);
  expect(settled(on, 10 * QUIET).shown.text).toBe('mine!');
});

test('a message that was sent elsewhere takes its draft along', () => {
  const told = saved(typed(BLANK, words('send me'), 0));
  expect(heard(told, EMPTY, QUIET).shown).toEqual(EMPTY);
});

test('a sent message leaves an empty field, and its late echo does not come back', () => {
  const gone = sent(saved(typed(BLANK, words('hello'), 0)));
  expect([gone.shown, gone.unsaved]).toEqual([EMPTY, false]);
  expect(heard(gone, EMPTY, 1)).toBe(gone);
});

test('typing back to what the host has leaves nothing to tell', () => {
  const told = saved(typed(BLANK, words('ab'), 0));
  const less = typed(told, words('a'), 1);
  expect([less.unsaved, typed(less, words('ab'), 2).unsaved]).toEqual([true, false]);
});

test('a save that failed is to be made again, unless it would say nothing new', () => {
  const told = saved(typed(BLANK, words('mine'), 0));
  expect(unsaved(told, EMPTY).unsaved).toBe(true);
  expect(unsaved(told, words('mine')).unsaved).toBe(false);
});

test('contents that the host keeps from now on are not told again', () => {
  const told = saved(typed(BLANK, words('look', embedded), 0));
  const now = renamed(told, words('look', named), words('look', named));
  expect(now.unsaved).toBe(false);
  expect(heard(now, words('look', { ...named, _meta: { hostler: {} } }), 10 * QUIET)).toBe(now);
  const further = renamed(typed(told, words('look!', embedded), 1), words('look!', named), words('look', named));
  expect([further.unsaved, further.shown.text]).toEqual([true, 'look!']);
});

test('contents are the same if words and attachments are, whatever the host notes beside them', () => {
  expect(same(words('a', named), words('a', { ...named, sizeHint: 3 }))).toBe(true);
  expect(same(words('a', named), words('a', { ...named, uri: 'ahp-content:/2' }))).toBe(false);
  expect(same(words('a', named), words('a'))).toBe(false);
  expect(same(words('a', named), words('a', named, named))).toBe(false);
  expect(same(words('a'), words('b'))).toBe(false);
});
