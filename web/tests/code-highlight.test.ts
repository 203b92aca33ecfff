import { expect, test } from 'vitest';
import { isColoured, kindOf, languageOf } from '../src/markdown/code-tokens.ts';
import { highlight } from '../src/markdown/highlight.ts';

test('runs are the code, in colours', () => {
  const code = 'fn main() {\n    let name = "world"; // hello\n}\n';
  const runs = highlight(code, 'rust') ?? [];
  expect(runs.map(({ text }) => text).join('')).toBe(code);
  expect(runs).toContainEqual({ kind: 'keyword', text: 'fn' });
  expect(runs).toContainEqual({ kind: 'string', text: '"world"' });
  expect(runs).toContainEqual({ kind: 'comment', text: '// hello' });
});

test('neighbours of one colour are one run', () => {
  const runs = highlight('a b c d e f', 'rust') ?? [];
  expect(runs).toEqual([{ kind: undefined, text: 'a b c d e f' }]);
});

test('languages that people write behind a fence are known', () => {
  const said = [
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
  expect(said.filter((name) => highlight('', name) === undefined)).toEqual([]);
  expect(highlight('x', 'klingon')).toBeUndefined();
});

test('a language is the first word, or what a file is called', () => {
  expect(languageOf('rust,ignore')).toBe('rust');
  expect(languageOf('TS title="a.ts"')).toBe('ts');
  expect(languageOf('src/app/Page.SVELTE')).toBe('svelte');
  expect(languageOf('/a/Dockerfile')).toBe('dockerfile');
  expect(languageOf('{.python}')).toBe('');
  expect(languageOf('')).toBe('');
});

test('what has no language, or is too long, has no colours', () => {
  expect(isColoured('a', '')).toBe(false);
  expect(isColoured('a', 'rust')).toBe(true);
  expect(isColoured('a'.repeat(100_001), 'rust')).toBe(false);
  expect(kindOf(['hljs-constructor', 'hljs-__proto__'])).toBeUndefined();
});
