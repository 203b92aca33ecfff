/** Composer state: saving, sending and restoring a message. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  type Action,
  type Attachment,
  type ChannelView,
  type ChatState,
  type Client,
  DisconnectedError,
  type Envelope,
  RejectedError,
  type UserMessage,
} from '../../src/ahp/index.ts';
import { ComposerState } from '../../src/composer/composer-state.svelte.ts';
import { SAVE_DELAY_MS } from '../../src/composer/draft-reconciliation.ts';
import { storeDraft } from '../../src/composer/draft-storage.ts';
import { guardField, hasUnsavedText } from '../../src/composer/unsaved-guard.ts';

const URI = 'ahp-chat:/c';
const origin = { kind: 'user' } as const;
const embedded: Attachment = { type: 'embeddedResource', label: 'a.txt', data: 'QQ==', contentType: 'text/plain' };
const named: Attachment = { type: 'resource', label: 'a.txt', uri: 'ahp-content:/1' };

class FakeStorage {
  readonly all = new Map<string, string>();
  getItem = (key: string) => this.all.get(key) ?? null;
  setItem = (key: string, value: string) => void this.all.set(key, value);
  removeItem = (key: string) => void this.all.delete(key);
}

interface ChatCall {
  method: string;
  message: UserMessage | undefined;
  resolve: (action?: Action) => Promise<void>;
  reject: (error: Error) => Promise<void>;
}

/** A chat whose calls the test resolves. */
class FakeChat {
  readonly uri = URI;
  readonly calls: ChatCall[] = [];
  readonly reported: string[] = [];
  readonly storage: FakeStorage;
  readonly view: { value: ChannelView<ChatState>; subscribe: () => () => void };
  readonly composer: ComposerState;
  plans = 0;

  constructor(state: Partial<ChatState> = {}, storage = new FakeStorage()) {
    this.storage = storage;
    const chat: ChatState = { resource: URI, title: '', status: 1, modifiedAt: '', turns: [], ...state };
    this.view = { value: { state: chat, status: 'live', pending: 0 }, subscribe: () => () => undefined };
    const client = {
      request: async () => {
        this.plans += 1;
        return { ok: false, files: [{ label: 'a.txt', decision: 'reject', message: 'it is too large' }] };
      },
    };
    this.composer = new ComposerState(
      this,
      client as unknown as Client,
      (reason) => this.reported.push(reason),
      storage,
    );
  }

  #record(method: string, message: UserMessage | undefined): Promise<Envelope> {
    return new Promise((resolve, reject) => {
      const echo: Action = { type: 'chat/draftChanged', ...(message && { draft: { ...message, origin } }) };
      const grant = async (action: Action = echo) => {
        resolve({ channel: URI, serverSeq: 1, action });
        await vi.advanceTimersByTimeAsync(0);
      };
      const refuse = async (error: Error) => {
        reject(error);
        await vi.advanceTimersByTimeAsync(0);
      };
      this.calls.push({ method, message, resolve: grant, reject: refuse });
    });
  }

  setDraft = (message: UserMessage | undefined) => this.#record('draft', message);
  send = (message: UserMessage) => this.#record('send', message);
  queue = (message: UserMessage) => this.#record('queue', message);
  steer = (message: UserMessage) => this.#record('steer', message);
  removePendingMessage = (kind: string, id: string) => this.#record(`removePendingMessage ${kind} ${id}`, undefined);

  receive(state: Partial<ChatState> = {}, status: ChannelView<ChatState>['status'] = 'live'): void {
    const now = this.view.value.state as ChatState;
    this.view.value = { state: { ...now, ...state }, status, pending: 0 };
    this.composer.update(this.view.value);
  }

  /** The only recorded call, which is removed. */
  takeOnlyCall(method: string): ChatCall {
    expect(this.calls.map((call) => call.method)).toEqual([method]);
    const [call] = this.calls.splice(0);
    if (!call) throw new Error('no recorded call');
    return call;
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

test('typed text is saved once after the typing pause', async () => {
  const chat = new FakeChat();
  chat.receive();
  for (const text of ['h', 'he', 'hel']) {
    chat.composer.setText(text);
    await vi.advanceTimersByTimeAsync(SAVE_DELAY_MS - 1);
  }
  expect(chat.calls).toEqual([]);
  await settle();
  expect(chat.takeOnlyCall('draft').message).toEqual({ text: 'hel' });
});

test('only one save runs at a time, followed by the newest text', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('one');
  await settle();
  const first = chat.takeOnlyCall('draft');
  chat.composer.setText('one two');
  await settle();
  expect(chat.calls).toEqual([]);
  await first.resolve();
  await settle();
  expect(chat.takeOnlyCall('draft').message).toEqual({ text: 'one two' });
});

test('without a host the tab stores the draft and saves it after reconnecting', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.receive({}, 'disconnected');
  chat.composer.setText('offline');
  await vi.advanceTimersByTimeAsync(10 * SAVE_DELAY_MS);
  expect(chat.calls).toEqual([]);
  expect([...chat.storage.all.values()][0]).toContain('offline');
  chat.receive();
  await settle();
  await chat.takeOnlyCall('draft').resolve();
  expect(chat.storage.all.size).toBe(0);
});

test('sending a message empties the field and the draft', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('hello');
  await settle();
  await chat.takeOnlyCall('draft').resolve();
  void chat.composer.send('send');
  expect(chat.composer.text).toBe('');
  expect(chat.calls.map(({ method, message }) => [method, message])).toEqual([
    ['send', { text: 'hello' }],
    ['draft', undefined],
  ]);
  expect([...chat.storage.all.values()][0]).toContain('hello');
  for (const call of chat.calls) await call.resolve();
  expect([chat.storage.all.size, chat.composer.text]).toEqual([0, '']);
});

test('a rejected message returns to the field with the reason, above newer text', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('hello');
  void chat.composer.send('queue');
  const call = chat.takeOnlyCall('queue');
  chat.composer.setText('next');
  await call.reject(rejected('the queue is full'));
  expect(chat.composer.text).toBe('hello\n\nnext');
  expect(chat.composer.sendError).toBe('Not sent: the queue is full');
  chat.composer.setText('hello');
  expect(chat.composer.sendError).toBeUndefined();
});

test('a message rejected after the composer closed is restored when it reopens', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('hello');
  void chat.composer.send('send');
  chat.composer.close();
  await chat.takeOnlyCall('send').reject(rejected('a turn is running'));
  expect(chat.reported).toEqual(['a turn is running']);
  const again = new FakeChat({}, chat.storage);
  again.receive();
  expect(again.composer.text).toBe('hello');
});

test('closing the composer saves the typed text', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('hello');
  chat.composer.close();
  await chat.takeOnlyCall('draft').resolve();
  expect(chat.storage.all.size).toBe(0);
});

test('files are uploaded once with the draft and referenced in the message', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('look');
  chat.composer.attach(embedded);
  await settle();
  const save = chat.takeOnlyCall('draft');
  expect(save.message?.attachments).toEqual([embedded]);
  void chat.composer.send('send');
  expect([chat.composer.isUploading, chat.calls]).toEqual([true, []]);
  await save.resolve({ type: 'chat/draftChanged', draft: { text: 'look', attachments: [named], origin } });
  expect(chat.calls.map(({ method, message }) => [method, message?.attachments])).toEqual([
    ['send', [named]],
    ['draft', undefined],
  ]);
});

test('files that the host rejects stay local, the text is saved, and the plan reports the problem', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('look');
  chat.composer.attach(embedded);
  await settle();
  await chat.takeOnlyCall('draft').reject(rejected('too large'));
  await settle();
  const again = chat.takeOnlyCall('draft');
  expect(again.message).toEqual({ text: 'look' });
  await again.resolve();
  chat.receive({ draft: { text: 'look', origin } });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(chat.composer.chips.map(({ label }) => label)).toEqual(['a.txt']);
  await vi.advanceTimersByTimeAsync(10_000);
  chat.receive({ draft: { text: 'look, from elsewhere', origin } });
  expect([chat.composer.text, chat.composer.chips.length]).toEqual(['look, from elsewhere', 1]);
  expect(chat.composer.sendBlocker).toBe('a.txt cannot be sent: it is too large.');
  await chat.composer.send('send');
  expect(chat.calls).toEqual([]);
});

test('files are planned once, regardless of typing', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.attach(named);
  for (const text of ['a', 'ab', 'abc']) {
    chat.composer.setText(text);
    await settle();
    await chat.takeOnlyCall('draft').resolve();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(chat.plans).toBe(1);
});

test('text that the host rejects is not saved repeatedly', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('far too long');
  await settle();
  await chat.takeOnlyCall('draft').reject(rejected('a message has at most 8 bytes'));
  await vi.advanceTimersByTimeAsync(60_000);
  expect([chat.calls, chat.composer.text]).toEqual([[], 'far too long']);
});

test('a save that was lost is repeated', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('hello');
  await settle();
  await chat.takeOnlyCall('draft').reject(new DisconnectedError('gone'));
  await settle();
  expect(chat.takeOnlyCall('draft').message).toEqual({ text: 'hello' });
});

test('an untouched field follows remote drafts at once', async () => {
  const chat = new FakeChat({ draft: { text: 'one', origin } });
  chat.receive();
  chat.receive({ draft: { text: 'two', origin } });
  expect(chat.composer.text).toBe('two');
  expect(chat.calls).toEqual([]);
});

test('remote drafts replace an idle field, but not during IME input', async () => {
  const chat = new FakeChat({ draft: { text: 'from the phone', origin } });
  chat.receive();
  expect(chat.composer.text).toBe('from the phone');
  await vi.advanceTimersByTimeAsync(10_000);
  chat.composer.isImeActive = true;
  chat.receive({ draft: { text: 'more from the phone', origin } });
  expect(chat.composer.text).toBe('from the phone');
  chat.composer.isImeActive = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(chat.composer.text).toBe('more from the phone');
  // The previous text is not lost.
  expect(chat.composer.history.older('', [])).toBe('from the phone');
});

test('a second steering message is merged with the first unless that one was delivered', async () => {
  const steeringMessage = { id: 's', message: { text: 'first', origin } };
  for (const isDelivered of [false, true]) {
    const chat = new FakeChat({ steeringMessage });
    chat.receive();
    chat.composer.setText('second');
    void chat.composer.send('steer');
    const back = chat.takeOnlyCall('removePendingMessage steering s');
    if (isDelivered) await back.reject(rejected('the message was delivered already'));
    else await back.resolve();
    expect(chat.takeOnlyCall('steer').message?.text).toBe(isDelivered ? 'second' : 'first\n\nsecond');
  }
});

test('an attachment is removed together with its mention', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('see @a.txt ');
  chat.composer.attach(named, '@a.txt');
  chat.composer.attach(named, '@a.txt');
  expect(chat.composer.chips.length).toBe(1);
  chat.composer.setText('see @a.tx');
  expect(chat.composer.chips).toEqual([]);
});

test('an empty message is not sent', async () => {
  const chat = new FakeChat();
  chat.receive();
  chat.composer.setText('  \n ');
  await chat.composer.send('send');
  expect(chat.calls).toEqual([]);
});

test('a tab warns before closing while it has unsaved text', async () => {
  const chat = new FakeChat();
  const { composer: composing } = chat;
  chat.receive();
  expect(composing.hasUnsavedText()).toBe(false);
  // A connected host saves in time.
  composing.setText('saved as I go');
  expect(composing.hasUnsavedText()).toBe(false);
  await chat.takeOnlyCall('draft').resolve();
  chat.receive({}, 'disconnected');
  composing.setText('typed while offline');
  expect(composing.hasUnsavedText()).toBe(true);
  chat.receive();
  expect(composing.hasUnsavedText()).toBe(false);
  await chat.takeOnlyCall('draft').resolve();

  void composing.send('send');
  await vi.advanceTimersByTimeAsync(0);
  expect(composing.hasUnsavedText()).toBe(true);
  for (const call of chat.calls.splice(0)) await call.resolve();
  expect(composing.hasUnsavedText()).toBe(false);
});

test('stored text warns before closing until the chat loads, and is removed with the chat', () => {
  const storage = new FakeStorage();
  storeDraft(storage, URI, { typed: { text: 'from before', attachments: [] } });
  const { composer: composing } = new FakeChat({}, storage);
  expect(composing.hasUnsavedText()).toBe(true);
  composing.discardStored();
  expect(storage.all.size).toBe(0);
});

test('stored text of chats that are not open warns before closing', () => {
  const storage = new FakeStorage();
  const getStorage = () => ({ length: storage.all.size, key: (at: number) => [...storage.all.keys()][at] ?? null });
  expect(hasUnsavedText(getStorage)).toBe(false);
  storeDraft(storage, URI, { typed: { text: 'stored', attachments: [] } });
  expect(hasUnsavedText(getStorage)).toBe(true);
  // An open field decides itself whether it has unsaved text.
  let held = false;
  const unwatch = guardField({ chat: URI, flushAndCheck: () => held });
  expect(hasUnsavedText(getStorage)).toBe(false);
  held = true;
  expect(hasUnsavedText(getStorage)).toBe(true);
  unwatch();
});

test('preview URLs are revoked with their chips', async () => {
  const readers: { onload?: () => void }[] = [];
  const previews = new Set<string>();
  vi.stubGlobal(
    'FileReader',
    class {
      result = 'data:image/png;base64,QQ==';
      readAsDataURL = () => void readers.push(this as { onload?: () => void });
    },
  );
  vi.spyOn(URL, 'createObjectURL').mockImplementation((file) => {
    const preview = `blob:${(file as File).name}`;
    previews.add(preview);
    return preview;
  });
  vi.spyOn(URL, 'revokeObjectURL').mockImplementation((preview) => void previews.delete(preview));
  const file = (name: string) => new File(['A'], name, { type: 'image/png' });
  const read = async () => {
    readers.shift()?.onload?.();
    await vi.advanceTimersByTimeAsync(0);
  };
  const chat = new FakeChat();
  chat.receive();
  const { composer: composing } = chat;

  // Another client removes it from the draft.
  void composing.attachFiles([file('a.png')]);
  await read();
  await settle();
  await chat.takeOnlyCall('draft').resolve({
    type: 'chat/draftChanged',
    draft: { text: '', origin, attachments: [{ type: 'resource', label: 'a.png', uri: 'ahp-content:/1' }] },
  });
  expect([...previews]).toEqual(['blob:a.png']);
  chat.receive({ draft: { text: 'theirs', origin } });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(composing.text).toBe('theirs');
  expect([...previews]).toEqual([]);

  // The composer closes while files are read; the next file is not read.
  void composing.attachFiles([file('b.png'), file('c.png')]);
  expect([...previews]).toEqual(['blob:b.png']);
  composing.close();
  await read();
  expect([...previews]).toEqual([]);
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
