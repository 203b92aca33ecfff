/** The rules of this house, as ordinary failing tests. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

test('the AHP client imports nothing outside its folder', () => {
  const home = join(root, 'src/ahp');
  const files = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
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

test('the lockfile names no registry, and every version is exact', () => {
  expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toContain('"resolved"');
  const { dependencies = {}, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const version of Object.values({ ...dependencies, ...devDependencies }))
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
});
