/** The AHP client is a package of its own: it depends on nothing, knows no host, and builds alone. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';

const home = join(import.meta.dirname, '../src/ahp');
const files = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.ts') && !name.startsWith('dist'),
);

test('the AHP client imports nothing outside its folder', () => {
  expect(files.length).toBeGreaterThan(20);
  const foreign = files.flatMap((name) => {
    const imports = [...readFileSync(join(home, name), 'utf8').matchAll(/from '([^']+)'|import\('([^']+)'\)/g)];
    const outside = imports
      .map(([, one, other]) => one ?? other ?? '')
      .filter((path) => {
        const depth = name.split('/').length;
        return !path.startsWith('.') || path.split('/').filter((part) => part === '..').length >= depth;
      });
    return outside.map((path) => `${name}: ${path}`);
  });
  expect(foreign).toEqual([]);
});

test('the AHP client knows no extension of a host', () => {
  const named = files.filter((name) => /hostler/i.test(readFileSync(join(home, name), 'utf8')));
  expect(named).toEqual([]);
});

test('the package declares no dependencies and the licences of the project', () => {
  const description = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  const page = JSON.parse(readFileSync(join(home, '../../package.json'), 'utf8'));
  expect(Object.keys(description).filter((key) => /dependencies/i.test(key))).toEqual([]);
  expect(description.license).toBe(page.license);
  expect(description.type).toBe('module');
});

test('the package builds alone, and Node.js imports what it exports', async () => {
  const target = mkdtempSync(join(tmpdir(), 'ahp-client-'));
  try {
    const compiler = join(home, '../../node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [
      compiler,
      '--project',
      join(home, 'tsconfig.json'),
      '--outDir',
      join(target, 'dist'),
    ]);
    const { exports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
    for (const { types, default: main } of Object.values<{ types: string; default: string }>(exports)) {
      expect(readFileSync(join(target, types), 'utf8')).toContain('export');
      // The import is not transformed, so Node.js itself resolves the built modules.
      const script = `import(${JSON.stringify(pathToFileURL(join(target, main)).href)}).then((all) => console.log(Object.keys(all).join()))`;
      const names = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' });
      expect(names).toContain('ErrorCode');
    }
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
});
