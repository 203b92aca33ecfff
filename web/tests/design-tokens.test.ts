/** Sizes come from the design tokens in `styles/tokens.css`. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const source = join(import.meta.dirname, '../src');

/** Number of literal sizes outside the tokens. It may only shrink: a new size is a token. */
const MAX_LITERALS = 177;
/** A literal that is used more often than this for one kind of property becomes a token. */
const MAX_REPETITIONS = 8;

/** Kinds of properties whose values are tokens, and the names of these tokens. */
const KINDS: readonly { readonly kind: string; readonly property: RegExp; readonly token: RegExp }[] = [
  { kind: 'spacing', property: /^(padding|margin)(-|$)|^((row|column)-)?gap$/, token: /^--space-/ },
  { kind: 'font size', property: /^font-size$/, token: /^--size-/ },
  { kind: 'radius', property: /^border-radius$/, token: /^--radius/ },
  { kind: 'control', property: /^(min-)?(height|width)$/, token: /^--(control|touch-target)/ },
  { kind: 'layer', property: /^z-index$/, token: /^--layer-/ },
  { kind: 'duration', property: /^(transition|animation)(-|$)/, token: /^--duration-/ },
];

interface Literal {
  readonly file: string;
  readonly property: string;
  readonly value: string;
  /** The declaration's whole value. */
  readonly whole: string;
}

/** The literal sizes, layers and durations of a style sheet. Media queries cannot use custom properties. */
function literalsOf(file: string, text: string): readonly Literal[] {
  const style = file.endsWith('.svelte') ? (/<style>(.*)<\/style>/s.exec(text)?.[1] ?? '') : text;
  const plain = style.replace(/\/\*.*?\*\//gs, '').replace(/@media[^{]*/g, '');
  return [...plain.matchAll(/([\w-]+)\s*:\s*([^;{}]+);/g)].flatMap(([, property = '', whole = '']) => {
    const sizes = [...whole.matchAll(/(?<![\w.-])-?(\d*\.?\d+(?:px|rem|ms|s))\b/g)].map(([, value = '']) => value);
    const layers = property === 'z-index' && /^\d+$/.test(whole) ? [whole] : [];
    return [...sizes, ...layers].map((value) => ({ file, property, value, whole: whole.trim() }));
  });
}

function kindOf(property: string): string {
  return KINDS.find((one) => one.property.test(property))?.kind ?? property;
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
  (name) => /\.(svelte|css)$/.test(name) && name !== 'styles/tokens.css',
);
const literals = files.flatMap((name) => literalsOf(name, readFileSync(join(source, name), 'utf8')));
const tokens = [
  ...readFileSync(join(source, 'styles/tokens.css'), 'utf8').matchAll(/(--[\w-]+):\s*(-?[\d.]+(?:px|rem|ms|s)?);/g),
].map(([, name = '', value = '']) => ({ name, value }));

test('a size that has a token is written as the token', () => {
  expect(tokens.length).toBeGreaterThan(30);
  const missed = literals.filter(({ property, value, whole }) => {
    const found = KINDS.find((one) => one.property.test(property));
    // A width in a calculation is not the size of a control.
    if (found?.kind === 'control' && whole !== value) return false;
    return tokens.some((token) => found?.token.test(token.name) && token.value === value);
  });
  expect(missed.map(({ file, property, whole }) => `${file}: ${property}: ${whole}`)).toEqual([]);
});

test('a size that repeats is a token', () => {
  const counts = new Map<string, number>();
  for (const { property, value } of literals) {
    const key = `${kindOf(property)} ${value}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  expect([...counts].filter(([, count]) => count > MAX_REPETITIONS)).toEqual([]);
});

test('the number of literal sizes does not grow', () => {
  expect(literals.length).toBeLessThanOrEqual(MAX_LITERALS);
});

test('the scan finds sizes, layers and durations, and skips media queries', () => {
  const text =
    '<style>\n  a { margin: -2px auto var(--space-1); z-index: 3; /* 9px */ }\n  @media (width < 40rem) { b { transition: x 0.2s; } }\n</style>';
  const found = literalsOf('x.svelte', text).map(({ property, value }) => `${property} ${value}`);
  expect(found).toEqual(['margin 2px', 'z-index 3', 'transition 0.2s']);
});
