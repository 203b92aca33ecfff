/** The second secret of a sign-in, with and without storage. */

import { afterEach, expect, test, vi } from 'vitest';
import { forgetPageKey, keepPageKey, keyHeaders, subprotocols } from '../src/app/page-key.ts';

const stored = new Map<string, string>();
let isFull = false;

vi.stubGlobal('localStorage', {
  getItem: (name: string) => stored.get(name) ?? null,
  setItem: (name: string, value: string) => {
    if (isFull) throw new Error('quota exceeded');
    stored.set(name, value);
  },
  removeItem: (name: string) => void stored.delete(name),
});

afterEach(() => {
  isFull = false;
  forgetPageKey();
});

test('a kept key goes with requests and with the WebSocket, and is forgotten', () => {
  expect(keyHeaders()).toEqual({});
  expect(subprotocols()).toEqual([]);
  keepPageKey('one');
  expect(keyHeaders()).toEqual({ 'x-hostler-key': 'one' });
  expect(subprotocols()).toEqual(['hostler.ahp', 'hostler.key.one']);
  forgetPageKey();
  expect(stored.size).toBe(0);
  expect(keyHeaders()).toEqual({});
});

test('a key that cannot be stored replaces one that was', () => {
  keepPageKey('old');
  isFull = true;
  keepPageKey('new');
  expect(keyHeaders()).toEqual({ 'x-hostler-key': 'new' });
});
