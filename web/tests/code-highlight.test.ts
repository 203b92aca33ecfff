import { expect, test } from 'vitest';
import { canHighlight, detectLanguage, tokenKind } from '../src/markdown/code-tokens.ts';
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
  expect(detectLanguage('rust,ignore')).toBe('rust');
  expect(detectLanguage('TS title="a.ts"')).toBe('ts');
  expect(detectLanguage('src/app/Page.SVELTE')).toBe('svelte');
  expect(detectLanguage('/a/Dockerfile')).toBe('dockerfile');
  expect(detectLanguage('{.python}')).toBe('');
  expect(detectLanguage('')).toBe('');
});

test('what has no language, or is too long, has no colours', () => {
  expect(canHighlight('a', '')).toBe(false);
  expect(canHighlight('a', 'rust')).toBe(true);
  expect(canHighlight('a'.repeat(100_001), 'rust')).toBe(false);
  expect(tokenKind(['hljs-constructor', 'hljs-__proto__'])).toBeUndefined();
});
