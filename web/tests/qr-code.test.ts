/** QR codes compared with another encoder, and read by another decoder. */

import decodeQrCode from 'qr/decode.js';
import { expect, test } from 'vitest';
import { encodeQrCode, type QrCode } from '../src/shell/qr-code.ts';

/** "hi" from an independent encoder: version 1, mask 2. */
const HI = [
  '#######..####.#######',
  '#.....#..##.#.#.....#',
  '#.###.#.##.##.#.###.#',
  '#.###.#.##..#.#.###.#',
  '#.###.#.#..##.#.###.#',
  '#.....#.##..#.#.....#',
  '#######.#.#.#.#######',
  '........#.###........',
  '#.#####.....#.#####..',
  '.###.#.#..#.#..#....#',
  '..##..##.#.#.#..####.',
  '###.#....#.....##.#..',
  '###.#.#....#.#..#.#.#',
  '........#..####..#..#',
  '#######...#.#.##...#.',
  '#.....#.#######..#..#',
  '#.###.#.#...#..#..#..',
  '#.###.#.###.#..#..#..',
  '#.###.#.#..#.#..###..',
  '#.....#..##....##.#..',
  '#######.#.##.#..####.',
];

function drawn(code: QrCode | undefined): string[] {
  const indices = Array.from({ length: code?.size ?? 0 }, (_, at) => at);
  return indices.map((y) => indices.map((x) => (code?.get(x, y) ? '#' : '.')).join(''));
}

/** A digest of a large code (FNV-1a over its rows in hexadecimal). */
function digest(code: QrCode | undefined): string {
  const rows = drawn(code).map((row) => BigInt(`0b${row.replaceAll('#', '1').replaceAll('.', '0')}`).toString(16));
  let hash = 0x811c9dc5;
  for (const character of rows.join('\n')) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193) >>> 0;
  return hash.toString(16);
}

test('a small code matches the reference', () => {
  expect(drawn(encodeQrCode('hi', 2))).toEqual(HI);
});

test('larger codes match the reference: alignment, blocks, version, lengths', () => {
  const link = 'http://127.0.0.1:8137/#link=AbCdEfGhIjKlMnOpQrStUv';
  expect(digest(encodeQrCode(link, 4))).toBe('10c9ea3');
  expect(digest(encodeQrCode('x'.repeat(300), 0))).toBe('ca86b2d9');
});

/** What a scanner reads from the picture of a code: four pixels per module, with a quiet zone. */
function scan(code: QrCode | undefined): string {
  const [scale, quiet] = [4, 4];
  const side = ((code?.size ?? 0) + 2 * quiet) * scale;
  const data = new Uint8Array(side * side * 4).fill(255);
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++)
      if (code?.get(Math.floor(x / scale) - quiet, Math.floor(y / scale) - quiet))
        data.fill(0, (y * side + x) * 4, (y * side + x) * 4 + 3);
  return decodeQrCode({ width: side, height: side, data });
}

test('a decoder reads the text', () => {
  const texts = [
    'http://127.0.0.1:8137/#link=AbCdEfGhIjKlMnOpQrStUv',
    'https://stable.example.org:8443/session/claude%3A%2F1f0c/#link=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ',
    'https://example.org/äöü €',
    'x'.repeat(600),
  ];
  for (const text of texts) expect(scan(encodeQrCode(text))).toBe(text);
});

test('a code has the smallest version that fits', () => {
  const size = (length: number) => encodeQrCode('x'.repeat(length))?.size;
  // Capacities of versions 1, 2, 10 and 20 at level M, from the standard.
  expect([size(14), size(15), size(26), size(27)]).toEqual([21, 25, 25, 29]);
  expect([size(213), size(214)]).toEqual([57, 61]);
  expect([size(666), size(667)]).toEqual([97, undefined]);
});

test('one of the eight masks is chosen', () => {
  const all = ([0, 1, 2, 3, 4, 5, 6, 7] as const).map((mask) => digest(encodeQrCode('hello', mask)));
  expect(new Set(all).size).toBe(8);
  expect(all).toContain(digest(encodeQrCode('hello')));
});
