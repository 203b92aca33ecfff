/** The page key, with and without storage. */

import { afterEach, expect, test, vi } from 'vitest';
import { clearPageKey, pageKeyHeaders, storePageKey, webSocketProtocols } from '../src/core/page-key.ts';

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
  clearPageKey();
});

test('a stored key is sent with requests and the WebSocket, and can be cleared', () => {
  expect(pageKeyHeaders()).toEqual({});
  expect(webSocketProtocols()).toEqual([]);
  storePageKey('one');
  expect(pageKeyHeaders()).toEqual({ 'x-hostler-key': 'one' });
  expect(webSocketProtocols()).toEqual(['hostler.ahp', 'hostler.key.one']);
  clearPageKey();
  expect(stored.size).toBe(0);
  expect(pageKeyHeaders()).toEqual({});
});

test('a key that cannot be stored replaces the stored one', () => {
  storePageKey('old');
  isFull = true;
  storePageKey('new');
  expect(pageKeyHeaders()).toEqual({ 'x-hostler-key': 'new' });
});
