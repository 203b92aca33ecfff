/** Tidiness rules of the source tree, as tests. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'svelte/compiler';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

test('the lockfile names no registry, and every version is exact', () => {
  expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toContain('"resolved"');
  const { dependencies = {}, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const version of Object.values({ ...dependencies, ...devDependencies }))
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
});

/** Attributes whose literal values reach the user. */
const TEXT_ATTRIBUTES = new Set([
  'alt',
  'aria-label',
  'aria-valuetext',
  'label',
  'placeholder',
  'reason',
  'summary',
  'title',
]);

/** The literal text of a component's markup: text nodes with letters, and literals in attributes that reach the user. */
function literalText(source: string): readonly string[] {
  const found: string[] = [];
  const visit = (node: unknown, attribute?: string): void => {
    if (Array.isArray(node)) for (const child of node) visit(child, attribute);
    else if (typeof node === 'object' && node !== null && 'type' in node) {
      const { type, data, name, value } = node as { type: string; data?: string; name?: string; value?: unknown };
      if (type === 'Attribute') return visit(value, name);
      if (type === 'Text') {
        const isShown = attribute === undefined || TEXT_ATTRIBUTES.has(attribute);
        if (isShown && /\p{L}{2}/u.test(data ?? '')) found.push((data ?? '').trim());
        return;
      }
      // Style directives hold units, not text.
      if (type === 'StyleDirective') return;
      const isLiteral = type === 'Literal' && typeof value === 'string';
      const isText = attribute === undefined || TEXT_ATTRIBUTES.has(attribute);
      if (isLiteral && isText && /^\p{Lu}\p{Ll}|\p{L} \p{L}/u.test(value)) found.push(value);
      for (const [key, child] of Object.entries(node)) if (key !== 'metadata') visit(child, attribute);
    }
  };
  visit(parse(source, { modern: true }).fragment);
  return found;
}

test('components hold no user-facing literals', () => {
  const home = join(root, 'src');
  const files = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.svelte'));
  expect(files.length).toBeGreaterThan(80);
  const literals = files.flatMap((name) =>
    literalText(readFileSync(join(home, name), 'utf8')).map((text) => `${name}: ${text}`),
  );
  expect(literals).toEqual([]);
});

test('the scan for literals finds text, attributes and expressions', () => {
  expect(literalText('<p>Hello there</p>')).toEqual(['Hello there']);
  expect(literalText('<Button label="Close" icon="close" />')).toEqual(['Close']);
  expect(literalText("<p title={a ? 'Send now' : b}>{a ? 'Done' : 1}</p>")).toEqual(['Send now', 'Done']);
  expect(literalText('<p class="muted text" style:top="{y}px">{strings.a} · {b}</p>')).toEqual([]);
});
