import { expect, test } from 'vitest';
import { spans } from '../src/tools/message.ts';
import { exact, visible } from '../src/ui/visible.ts';

test('blanks that push the rest of a command out of sight are counted', () => {
  expect(exact(`echo hello${' '.repeat(300)}; rm -rf important`)).toBe('echo hello ⟨300 blanks⟩ ; rm -rf important');
  expect(exact(`a${'\u00a0\t'.repeat(20)}b`)).toBe('a ⟨40 blanks⟩ b');
  expect(exact(`${' '.repeat(200)}b`)).toBe('⟨200 blanks⟩b');
  expect(exact(`echo hello${'\n'.repeat(40)}rm -rf important`)).toBe('echo hello\n⟨39 empty lines⟩\nrm -rf important');
  expect(exact(`echo hello${'\r\n \t'.repeat(40)}\nrm`)).toBe('echo hello\n⟨40 empty lines⟩\nrm');
});

test('code as people write it stays as it is', () => {
  const code = `if true; then\n${' '.repeat(40)}deep\n\n\nfi   # aligned\nlast line`;
  expect(exact(code)).toBe(code);
});

test('signs that turn a text around, or take no room, have names', () => {
  expect(visible('photo\u202egpj.exe')).toBe('photo⟨U+202E⟩gpj.exe');
  const all = [0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0x200b, 0x200d, 0xfeff, 0xad];
  for (const sign of all) expect(visible(`a${String.fromCodePoint(sign)}b`)).toMatch(/^a⟨U\+[0-9A-F]{4}⟩b$/);
  expect(visible('a\u{e0041}b\rc\u001b[2K')).toBe('a⟨U+E0041⟩b⟨U+000D⟩c⟨U+001B⟩[2K');
  expect(spans({ markdown: 'Allow `rm \u2066x`' }).at(-1)).toEqual({ text: 'rm ⟨U+2066⟩x', isCode: true });
});

test('what people write stays as it is, in every script', () => {
  for (const text of ['one\ttwo\r\nthree', 'שלום עולם', 'مرحبا', '日本語', '👨\u200d👩\u200d👧 👩🏽\u200d💻 ❤️\u200d🔥'])
    expect(visible(text)).toBe(text);
});
