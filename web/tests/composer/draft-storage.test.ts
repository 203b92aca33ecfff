/** Drafts that survive a reload. */

import { expect, test } from 'vitest';
import type { Attachment, ChatState } from '../../src/ahp/index.ts';
import { contentToRestore, readDraft, storeDraft } from '../../src/composer/draft-storage.ts';

class FakeStorage {
  readonly all = new Map<string, string>();
  getItem = (key: string) => this.all.get(key) ?? null;
  setItem = (key: string, value: string) => void this.all.set(key, value);
  removeItem = (key: string) => void this.all.delete(key);
}

const named: Attachment = { type: 'resource', label: 'a', uri: 'ahp-content:/1' };
const embedded: Attachment = { type: 'embeddedResource', label: 'b', data: 'QQ==', contentType: 'text/plain' };
const user = { kind: 'user' } as const;
const chat: ChatState = { resource: 'c', title: '', status: 1, modifiedAt: '', turns: [] };

test('a stored draft is restored without embedded contents', () => {
  const storage = new FakeStorage();
  storeDraft(storage, 'c', { typed: { text: 'mine', attachments: [named, embedded] } });
  expect(readDraft(storage, 'c')).toEqual({ typed: { text: 'mine', attachments: [named] }, sent: [] });
  expect(readDraft(storage, 'other')).toEqual({});
  storeDraft(storage, 'c', {});
  expect(storage.all.size).toBe(0);
});

test('storage that fails or holds invalid data reads as empty', () => {
  const full = {
    ...new FakeStorage(),
    setItem: () => {
      throw new Error('full');
    },
  };
  expect(() => storeDraft(full, 'c', { typed: { text: 'a', attachments: [] } })).not.toThrow();
  for (const nonsense of ['{', 'null', '{"typed":1,"sent":[null,{"text":2}]}']) {
    const storage = new FakeStorage();
    storage.setItem('hostler.unsaved.c', nonsense);
    expect(contentToRestore(readDraft(storage, 'c'), chat)).toBeUndefined();
  }
});

test('a message that never arrived is restored above newer text', () => {
  const sent = [{ text: 'lost', attachments: [] }];
  expect(contentToRestore({ sent, typed: { text: 'next', attachments: [named] } }, chat)).toEqual({
    text: 'lost\n\nnext',
    attachments: [named],
  });
});

test('a message that arrived in any form is not restored', () => {
  const sent = [{ text: 'hello', attachments: [] }];
  const message = { text: 'hello', origin: user };
  const turn = { id: '1', message, responseParts: [], state: 'complete' as const };
  const states: Partial<ChatState>[] = [
    { turns: [turn] },
    { activeTurn: { id: '1', startedAt: '', message, responseParts: [] } },
    { queuedMessages: [{ id: '1', message }] },
    { steeringMessage: { id: '1', message } },
  ];
  for (const state of states) expect(contentToRestore({ sent }, { ...chat, ...state })).toBeUndefined();
  expect(contentToRestore({ sent }, chat)?.text).toBe('hello');
});
