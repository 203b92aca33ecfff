/** What signing out clears and retains. */

import { expect, test, vi } from 'vitest';
import { storeDraft, writableUntilSignOut } from '../src/composer/draft-storage.ts';
import { clearStoredText, clearTextInMemory } from '../src/shell/sign-out-cleanup.ts';
import { expandedCalls, fieldKey, setExpanded, setUnsentText, unsentText } from '../src/tools/card-state.svelte.ts';
import { requestDrafts } from '../src/tools/questions/answer-drafts.svelte.ts';

class FakeStorage extends Map<string, string> {
  get length(): number {
    return this.size;
  }
  key = (at: number) => [...this.keys()][at] ?? null;
  getItem = (key: string) => this.get(key) ?? null;
  setItem = (key: string, value: string) => void this.set(key, value);
  removeItem = (key: string) => void this.delete(key);
}

test('signing out removes stored text and retains preferences', () => {
  const [lasting, tab] = [new FakeStorage(), new FakeStorage()];
  lasting.setItem('hostler.new.text', 'my secret plan');
  lasting.setItem('hostler.theme', 'dark');
  for (const chat of ['ahp-chat:/1', 'ahp-chat:/2', 'ahp-chat:/3'])
    storeDraft(tab, chat, { typed: { text: chat, attachments: [] } });
  tab.setItem('another', 'page');
  clearStoredText(
    () => lasting,
    () => tab,
  );
  expect([...lasting.keys()]).toEqual(['hostler.theme']);
  expect([...tab.keys()]).toEqual(['another']);
});

test('signing out works without storage', () => {
  const refuse = () => {
    throw new Error('The operation is insecure.');
  };
  expect(() => clearStoredText(refuse, refuse)).not.toThrow();
});

test('signing out clears card text and answer drafts without sending them', async () => {
  vi.useFakeTimers();
  const question = { id: 'q', kind: 'text', message: 'Who?' } as const;
  const request = { id: 'r', questions: [question] };
  setUnsentText(fieldKey('card', 'denial'), 'not my production database');
  setUnsentText(fieldKey('card', 'input'), 'rm -rf /secret');
  setExpanded('card', true);
  const saveDraft = vi.fn(async () => true);
  requestDrafts(request).set(question, { text: 'Ada', selectedIds: [], isSkipped: false }, saveDraft, 350);
  expect(requestDrafts(request).unsavedText).toBe('Ada');

  clearTextInMemory();
  await vi.advanceTimersByTimeAsync(1_000);
  expect([unsentText.size, expandedCalls.size]).toEqual([0, 0]);
  expect(requestDrafts(request).unsavedText).toBe('');
  expect(saveDraft).not.toHaveBeenCalled();
  vi.useRealTimers();
});

test('a message rejected after signing out is not stored', () => {
  const tab = new FakeStorage();
  const [before, sent] = [writableUntilSignOut(tab), { sent: [{ text: 'a secret', attachments: [] }] }];
  storeDraft(before, 'ahp-chat:/1', sent);
  expect(tab.size).toBe(1);
  storeDraft(before, 'ahp-chat:/1', {});
  clearTextInMemory();
  storeDraft(before, 'ahp-chat:/1', sent);
  expect(tab.size).toBe(0);
  storeDraft(writableUntilSignOut(tab), 'ahp-chat:/1', sent);
  expect(tab.size).toBe(1);
});
