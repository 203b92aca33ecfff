/** Code tokens and language detection. */

import { expect, test } from 'vitest';
import { canHighlight, detectLanguage, tokenKind } from '../src/markdown/code-tokens.ts';
import { highlight } from '../src/markdown/highlight.ts';

test('tokens concatenate to the highlighted code', () => {
  const code = 'fn main() {\n    let name = "world"; // hello\n}\n';
  const runs = highlight(code, 'rust') ?? [];
  expect(runs.map(({ text }) => text).join('')).toBe(code);
  expect(runs).toContainEqual({ kind: 'keyword', text: 'fn' });
  expect(runs).toContainEqual({ kind: 'string', text: '"world"' });
  expect(runs).toContainEqual({ kind: 'comment', text: '// hello' });
});

test('adjacent tokens of one kind are merged', () => {
  const runs = highlight('a b c d e f', 'rust') ?? [];
  expect(runs).toEqual([{ kind: undefined, text: 'a b c d e f' }]);
});

test('languages named after a fence are recognized', () => {
  const info = [
    'ts',
    'tsx',
    'js',
    'py',
    'rs',
    'sh',
    'bash',
    'console',
    'yml',
    'toml',
    'html',
    'svelte',
    'c++',
    'cs',
    'md',
    'kt',
    'jsonc',
    'docker',
    'make',
    'diff',
    'go',
    'rb',
  ];
  expect(info.filter((name) => highlight('', name) === undefined)).toEqual([]);
  expect(highlight('x', 'klingon')).toBeUndefined();
});

test('the language is the first word or the file extension', () => {
  expect(detectLanguage('rust,ignore')).toBe('rust');
  expect(detectLanguage('TS title="a.ts"')).toBe('ts');
  expect(detectLanguage('src/app/Page.SVELTE')).toBe('svelte');
  expect(detectLanguage('/a/Dockerfile')).toBe('dockerfile');
  expect(detectLanguage('{.python}')).toBe('');
  expect(detectLanguage('')).toBe('');
});

test('code without a language or beyond the limit is not highlighted', () => {
  expect(canHighlight('a', '')).toBe(false);
  expect(canHighlight('a', 'rust')).toBe(true);
  expect(canHighlight('a'.repeat(100_001), 'rust')).toBe(false);
  expect(tokenKind(['hljs-constructor', 'hljs-__proto__'])).toBeUndefined();
});
