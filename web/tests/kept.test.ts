/** What a browser keeps, and what it forgets. */

import { expect, test } from 'vitest';
import { forgetWords } from '../src/app/kept.ts';
import { keep } from '../src/composer/keep.ts';

class Store extends Map<string, string> {
  get length(): number {
    return this.size;
  }
  key = (at: number) => [...this.keys()][at] ?? null;
  getItem = (key: string) => this.get(key) ?? null;
  setItem = (key: string, value: string) => void this.set(key, value);
  removeItem = (key: string) => void this.delete(key);
}

test('whoever signs out leaves no words behind, and the preferences stay', () => {
  const [lasting, tab] = [new Store(), new Store()];
  lasting.setItem('hostler.new.text', 'my secret plan');
  lasting.setItem('hostler.theme', 'dark');
  for (const chat of ['ahp-chat:/1', 'ahp-chat:/2', 'ahp-chat:/3'])
    keep(tab, chat, { typed: { text: chat, attachments: [] } });
  tab.setItem('another', 'page');
  forgetWords(
    () => lasting,
    () => tab,
  );
  expect([...lasting.keys()]).toEqual(['hostler.theme']);
  expect([...tab.keys()]).toEqual(['another']);
});

test('a browser that keeps nothing lets people go all the same', () => {
  const refuse = () => {
    throw new Error('The operation is insecure.');
  };
  expect(() => forgetWords(refuse, refuse)).not.toThrow();
});
