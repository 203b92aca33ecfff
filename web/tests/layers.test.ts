/** The page's layers: which folder of `src` may import which, as tests. */

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';

const source = join(import.meta.dirname, '../src');

/** Each folder (or file directly in `src`) and what it may import, lowest first. A folder imports only folders above it in this list. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  ahp: [],
  'format.ts': [],
  'strings.ts': ['format.ts'],
  styles: [],
  ui: ['strings.ts'],
  markdown: ['strings.ts', 'ui'],
  core: ['ahp', 'strings.ts', 'format.ts', 'ui'],
  sessions: ['ahp', 'strings.ts', 'format.ts', 'ui', 'core'],
  trust: ['ahp', 'strings.ts', 'ui', 'core'],
  tools: ['ahp', 'strings.ts', 'format.ts', 'ui', 'markdown', 'core'],
  composer: ['ahp', 'strings.ts', 'format.ts', 'ui', 'core'],
  chat: ['ahp', 'strings.ts', 'format.ts', 'ui', 'markdown', 'core', 'sessions', 'trust', 'tools', 'composer'],
  shell: ['ahp', 'strings.ts', 'format.ts', 'ui', 'core', 'sessions', 'trust', 'tools', 'composer', 'chat'],
  'main.ts': ['shell', 'styles'],
};

interface Import {
  readonly from: string;
  readonly to: string;
}

/** The relative imports of a file, as paths below `src`. */
function importsOf(path: string, text: string): readonly Import[] {
  const found = text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g);
  return [...found].map(([, target = '']) => ({ from: path, to: normalize(join(dirname(path), target)) }));
}

function layerOf(path: string): string {
  return path.split('/')[0] ?? path;
}

const paths = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) =>
  /\.(ts|svelte|css)$/.test(name),
);
const imports = paths.flatMap((path) => importsOf(path, readFileSync(join(source, path), 'utf8')));

test('every folder is a layer', () => {
  expect(paths.length).toBeGreaterThan(200);
  expect(imports.length).toBeGreaterThan(500);
  expect([...new Set(paths.map(layerOf))].sort()).toEqual(Object.keys(LAYERS).sort());
});

test('the layers have an order, so there are no cycles between folders', () => {
  const order = Object.keys(LAYERS);
  const against = Object.entries(LAYERS).flatMap(([layer, below]) =>
    below.filter((other) => order.indexOf(other) >= order.indexOf(layer)).map((other) => `${layer} → ${other}`),
  );
  expect(against).toEqual([]);
});

test('a folder imports only the layers that it may import', () => {
  const violations = imports
    .filter(({ from, to }) => layerOf(from) !== layerOf(to) && !LAYERS[layerOf(from)]?.includes(layerOf(to)))
    .map(({ from, to }) => `${from} → ${to}`);
  expect(violations).toEqual([]);
});

test('each permitted import is used', () => {
  const used = new Set(imports.map(({ from, to }) => `${layerOf(from)} → ${layerOf(to)}`));
  const unused = Object.entries(LAYERS).flatMap(([layer, below]) =>
    below.map((other) => `${layer} → ${other}`).filter((edge) => !used.has(edge)),
  );
  expect(unused).toEqual([]);
});

test('the core has no views: it neither contains nor imports components', () => {
  expect(paths.filter((path) => layerOf(path) === 'core' && path.endsWith('.svelte'))).toEqual([]);
  const views = imports.filter(({ from, to }) => layerOf(from) === 'core' && to.endsWith('.svelte'));
  expect(views).toEqual([]);
});

test('the scan finds static, dynamic, type and side-effect imports', () => {
  const text = `import a from './a.ts';\nimport './b.css';\nimport type { C } from '../c/c.ts';\nconst d = import('../d.ts');\nimport {\n  e,\n} from '../e/e.ts';`;
  const targets = importsOf('x/y.ts', text).map(({ to }) => to);
  expect(targets).toEqual(['x/a.ts', 'x/b.css', 'c/c.ts', 'd.ts', 'e/e.ts']);
});
