import { expect, test } from 'vitest';
import { exact } from '../src/ui/visible.ts';

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
