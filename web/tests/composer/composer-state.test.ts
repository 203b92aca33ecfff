/** A message on its way: saved while it is written, sent, put back. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  type Action,
  type Attachment,
  type ChatState,
  type Client,
  DisconnectedError,
  type Envelope,
  RejectedError,
  type UserMessage,
  type View,
} from '../../src/ahp/index.ts';
import { ComposerState } from '../../src/composer/composer-state.svelte.ts';
import { SAVE_DELAY_MS } from '../../src/composer/draft-reconciliation.ts';
import { storeDraft } from '../../src/composer/draft-storage.ts';
import { guardField, hasUnsavedText } from '../../src/composer/unsaved-guard.ts';

const URI = 'ahp-chat:/c';
const origin = { kind: 'user' } as const;
const embedded: Attachment = { type: 'embeddedResource', label: 'a.txt', data: 'QQ==', contentType: 'text/plain' };
const named: Attachment = { type: 'resource', label: 'a.txt', uri: 'ahp-content:/1' };

class Shelf {
  readonly all = new Map<string, string>();
  getItem = (key: string) => this.all.get(key) ?? null;
  setItem = (key: string, value: string) => void this.all.set(key, value);
  removeItem = (key: string) => void this.all.delete(key);
}

interface Wish {
  what: string;
  words: UserMessage | undefined;
  grant: (action?: Action) => Promise<void>;
  refuse: (error: Error) => Promise<void>;
}

/** A host that answers when the test says so. */
class Fake {
  readonly uri = URI;
  readonly wishes: Wish[] = [];
  readonly told: string[] = [];
  readonly shelf: Shelf;
  readonly view: { value: View<ChatState>; subscribe: () => () => void };
  readonly composing: ComposerState;
  plans = 0;

  constructor(state: Partial<ChatState> = {}, shelf = new Shelf()) {
    this.shelf = shelf;
    const chat: ChatState = { resource: URI, title: '', status: 1, modifiedAt: '', turns: [], ...state };
    this.view = { value: { state: chat, status: 'live', pending: 0 }, subscribe: () => () => undefined };
    const client = {
      request: async () => {
        this.plans += 1;
        return { ok: false, files: [{ label: 'a.txt', decision: 'refuse', sentence: 'it is too large' }] };
      },
    };
    this.composing = new ComposerState(this, client as unknown as Client, (reason) => this.told.push(reason), shelf);
  }

  #wish(what: string, words: UserMessage | undefined): Promise<Envelope> {
    return new Promise((resolve, reject) => {
      const echo: Action = { type: 'chat/draftChanged', ...(words && { draft: { ...words, origin } }) };
      const grant = async (action: Action = echo) => {
        resolve({ channel: URI, serverSeq: 1, action });
        await vi.advanceTimersByTimeAsync(0);
      };
      const refuse = async (error: Error) => {
        reject(error);
        await vi.advanceTimersByTimeAsync(0);
      };
      this.wishes.push({ what, words, grant, refuse });
    });
  }

  setDraft = (words: UserMessage | undefined) => this.#wish('draft', words);
  send = (words: UserMessage) => this.#wish('send', words);
  queue = (words: UserMessage) => this.#wish('queue', words);
  steer = (words: UserMessage) => this.#wish('steer', words);
  removePendingMessage = (kind: string, id: string) => this.#wish(`removePendingMessage ${kind} ${id}`, undefined);

  hear(state: Partial<ChatState> = {}, status: View<ChatState>['status'] = 'live'): void {
    const now = this.view.value.state as ChatState;
    this.view.value = { state: { ...now, ...state }, status, pending: 0 };
    this.composing.update(this.view.value);
  }

  /** The wish that was made last, and no other. */
  only(what: string): Wish {
    expect(this.wishes.map((wish) => wish.what)).toEqual([what]);
    const [wish] = this.wishes.splice(0);
    if (!wish) throw new Error('no wish');
    return wish;
  }
}

const rejected = (reason: string) => new RejectedError(URI, { type: 'chat/draftChanged' }, reason);
const settle = () => vi.advanceTimersByTimeAsync(SAVE_DELAY_MS);

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('what is typed is told once, when the keys rest', async () => {
  const fake = new Fake();
  fake.hear();
  for (const text of ['h', 'he', 'hel']) {
    fake.composing.setText(text);
    await vi.advanceTimersByTimeAsync(SAVE_DELAY_MS - 1);
  }
  expect(fake.wishes).toEqual([]);
  await settle();
  expect(fake.only('draft').words).toEqual({ text: 'hel' });
});

test('while a save is on its way nothing else is saved, and afterwards the newest', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('one');
  await settle();
  const first = fake.only('draft');
  fake.composing.setText('one two');
  await settle();
  expect(fake.wishes).toEqual([]);
  await first.grant();
  await settle();
  expect(fake.only('draft').words).toEqual({ text: 'one two' });
});

test('without a host nothing is told; the tab keeps it, and tells it when the host is back', async () => {
  const fake = new Fake();
  fake.hear();
  fake.hear({}, 'disconnected');
  fake.composing.setText('offline');
  await vi.advanceTimersByTimeAsync(10 * SAVE_DELAY_MS);
  expect(fake.wishes).toEqual([]);
  expect([...fake.shelf.all.values()][0]).toContain('offline');
  fake.hear();
  await settle();
  await fake.only('draft').grant();
  expect(fake.shelf.all.size).toBe(0);
});

test('a message leaves an empty field and no draft', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('hello');
  await settle();
  await fake.only('draft').grant();
  void fake.composing.send('send');
  expect(fake.composing.text).toBe('');
  expect(fake.wishes.map(({ what, words }) => [what, words])).toEqual([
    ['send', { text: 'hello' }],
    ['draft', undefined],
  ]);
  expect([...fake.shelf.all.values()][0]).toContain('hello');
  for (const wish of fake.wishes) await wish.grant();
  expect([fake.shelf.all.size, fake.composing.text]).toEqual([0, '']);
});

test('a refused message is in the field again, with the reason, above what was typed since', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('hello');
  void fake.composing.send('queue');
  const wish = fake.only('queue');
  fake.composing.setText('next');
  await wish.refuse(rejected('the queue is full'));
  expect(fake.composing.text).toBe('hello\n\nnext');
  expect(fake.composing.sendError).toBe('Not sent: the queue is full');
  fake.composing.setText('hello');
  expect(fake.composing.sendError).toBeUndefined();
});

test('what is refused after somebody has left is there when they come back', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('hello');
  void fake.composing.send('send');
  fake.composing.close();
  await fake.only('send').refuse(rejected('a turn is running'));
  expect(fake.told).toEqual(['a turn is running']);
  const again = new Fake({}, fake.shelf);
  again.hear();
  expect(again.composing.text).toBe('hello');
});

test('whoever leaves has said what was typed', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('hello');
  fake.composing.close();
  await fake.only('draft').grant();
  expect(fake.shelf.all.size).toBe(0);
});

test('files go to the host once, with the draft, and are named in the message', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('look');
  fake.composing.attach(embedded);
  await settle();
  const save = fake.only('draft');
  expect(save.words?.attachments).toEqual([embedded]);
  void fake.composing.send('send');
  expect([fake.composing.isUploading, fake.wishes]).toEqual([true, []]);
  await save.grant({ type: 'chat/draftChanged', draft: { text: 'look', attachments: [named], origin } });
  expect(fake.wishes.map(({ what, words }) => [what, words?.attachments])).toEqual([
    ['send', [named]],
    ['draft', undefined],
  ]);
});

test('files that the host does not keep stay here; the words are saved, and the plan says what is wrong', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('look');
  fake.composing.attach(embedded);
  await settle();
  await fake.only('draft').refuse(rejected('too large'));
  await settle();
  const again = fake.only('draft');
  expect(again.words).toEqual({ text: 'look' });
  await again.grant();
  fake.hear({ draft: { text: 'look', origin } });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(fake.composing.chips.map(({ label }) => label)).toEqual(['a.txt']);
  await vi.advanceTimersByTimeAsync(10_000);
  fake.hear({ draft: { text: 'look, from elsewhere', origin } });
  expect([fake.composing.text, fake.composing.chips.length]).toEqual(['look, from elsewhere', 1]);
  expect(fake.composing.sendBlocker).toBe('a.txt cannot be sent: it is too large.');
  await fake.composing.send('send');
  expect(fake.wishes).toEqual([]);
});

test('the host looks at files once, however much is typed', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.attach(named);
  for (const text of ['a', 'ab', 'abc']) {
    fake.composing.setText(text);
    await settle();
    await fake.only('draft').grant();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(fake.plans).toBe(1);
});

test('words that the host will never keep are not said again and again', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('far too long');
  await settle();
  await fake.only('draft').refuse(rejected('a message has at most 8 bytes'));
  await vi.advanceTimersByTimeAsync(60_000);
  expect([fake.wishes, fake.composing.text]).toEqual([[], 'far too long']);
});

test('a save that was lost on its way is made again', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('hello');
  await settle();
  await fake.only('draft').refuse(new DisconnectedError('gone'));
  await settle();
  expect(fake.only('draft').words).toEqual({ text: 'hello' });
});

test('a field that was only opened follows others at once', async () => {
  const fake = new Fake({ draft: { text: 'one', origin } });
  fake.hear();
  fake.hear({ draft: { text: 'two', origin } });
  expect(fake.composing.text).toBe('two');
  expect(fake.wishes).toEqual([]);
});

test('others write into a field that is not used, but not into an input method’s word', async () => {
  const fake = new Fake({ draft: { text: 'from the phone', origin } });
  fake.hear();
  expect(fake.composing.text).toBe('from the phone');
  await vi.advanceTimersByTimeAsync(10_000);
  fake.composing.isImeActive = true;
  fake.hear({ draft: { text: 'more from the phone', origin } });
  expect(fake.composing.text).toBe('from the phone');
  fake.composing.isImeActive = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(fake.composing.text).toBe('more from the phone');
  // What stood there is not lost.
  expect(fake.composing.history.older('', [])).toBe('from the phone');
});

test('a second message for the running turn goes along with the first, unless that was told already', async () => {
  const steeringMessage = { id: 's', message: { text: 'first', origin } };
  for (const told of [false, true]) {
    const fake = new Fake({ steeringMessage });
    fake.hear();
    fake.composing.setText('second');
    void fake.composing.send('steer');
    const back = fake.only('removePendingMessage steering s');
    if (told) await back.refuse(rejected('the agent was told already'));
    else await back.grant();
    expect(fake.only('steer').words?.text).toBe(told ? 'second' : 'first\n\nsecond');
  }
});

test('a file goes when the words go that stand for it', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('see @a.txt ');
  fake.composing.attach(named, '@a.txt');
  fake.composing.attach(named, '@a.txt');
  expect(fake.composing.chips.length).toBe(1);
  fake.composing.setText('see @a.tx');
  expect(fake.composing.chips).toEqual([]);
});

test('nothing is sent that is empty', async () => {
  const fake = new Fake();
  fake.hear();
  fake.composing.setText('  \n ');
  await fake.composing.send('send');
  expect(fake.wishes).toEqual([]);
});

test('a tab is held back while it knows what the host has not got', async () => {
  const fake = new Fake();
  const { composing } = fake;
  fake.hear();
  expect(composing.hasUnsavedText()).toBe(false);
  // A host that listens is told in time.
  composing.setText('saved as I go');
  expect(composing.hasUnsavedText()).toBe(false);
  await fake.only('draft').grant();
  fake.hear({}, 'disconnected');
  composing.setText('typed to nobody');
  expect(composing.hasUnsavedText()).toBe(true);
  fake.hear();
  expect(composing.hasUnsavedText()).toBe(false);
  await fake.only('draft').grant();

  void composing.send('send');
  await vi.advanceTimersByTimeAsync(0);
  expect(composing.hasUnsavedText()).toBe(true);
  for (const wish of fake.wishes.splice(0)) await wish.grant();
  expect(composing.hasUnsavedText()).toBe(false);
});

test('what was kept before a reload holds a tab back until the chat is there, and goes with the chat', () => {
  const shelf = new Shelf();
  storeDraft(shelf, URI, { typed: { text: 'from before', attachments: [] } });
  const { composing } = new Fake({}, shelf);
  expect(composing.hasUnsavedText()).toBe(true);
  composing.discardStored();
  expect(shelf.all.size).toBe(0);
});

test('what is kept for chats that are not open would be lost with the tab', () => {
  const shelf = new Shelf();
  const storage = () => ({ length: shelf.all.size, key: (at: number) => [...shelf.all.keys()][at] ?? null });
  expect(hasUnsavedText(storage)).toBe(false);
  storeDraft(shelf, URI, { typed: { text: 'kept', attachments: [] } });
  expect(hasUnsavedText(storage)).toBe(true);
  // A field knows better what of it the host has.
  let held = false;
  const unwatch = guardField({ chat: URI, flushAndCheck: () => held });
  expect(hasUnsavedText(storage)).toBe(false);
  held = true;
  expect(hasUnsavedText(storage)).toBe(true);
  unwatch();
});

test('pictures of files are let go with their chips, whoever takes them away', async () => {
  const readers: { onload?: () => void }[] = [];
  const pictures = new Set<string>();
  vi.stubGlobal(
    'FileReader',
    class {
      result = 'data:image/png;base64,QQ==';
      readAsDataURL = () => void readers.push(this as { onload?: () => void });
    },
  );
  vi.spyOn(URL, 'createObjectURL').mockImplementation((file) => {
    const picture = `blob:${(file as File).name}`;
    pictures.add(picture);
    return picture;
  });
  vi.spyOn(URL, 'revokeObjectURL').mockImplementation((picture) => void pictures.delete(picture));
  const file = (name: string) => new File(['A'], name, { type: 'image/png' });
  const read = async () => {
    readers.shift()?.onload?.();
    await vi.advanceTimersByTimeAsync(0);
  };
  const fake = new Fake();
  fake.hear();
  const { composing } = fake;

  // Somebody else takes it out of the draft.
  void composing.attachFiles([file('a.png')]);
  await read();
  await settle();
  await fake.only('draft').grant({
    type: 'chat/draftChanged',
    draft: { text: '', origin, attachments: [{ type: 'resource', label: 'a.png', uri: 'ahp-content:/1' }] },
  });
  expect([...pictures]).toEqual(['blob:a.png']);
  fake.hear({ draft: { text: 'theirs', origin } });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(composing.text).toBe('theirs');
  expect([...pictures]).toEqual([]);

  // Somebody leaves while files are read: the next one is not even begun.
  void composing.attachFiles([file('b.png'), file('c.png')]);
  expect([...pictures]).toEqual(['blob:b.png']);
  composing.close();
  await read();
  expect([...pictures]).toEqual([]);
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
