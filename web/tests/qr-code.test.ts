/** QR codes compared with another encoder and the standard's examples. */

import { expect, test } from 'vitest';
import { encodeQrCode, errorCorrection, formatBits, type QrCode, versionBits } from '../src/shell/qr-code.ts';

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
  return (code ?? []).map((row) => row.map((dark) => (dark ? '#' : '.')).join(''));
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
  const long =
    'https://stable.example.org:8443/session/claude%3A%2F1f0c/#link=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ äöü';
  expect(digest(encodeQrCode(link, 4))).toBe('10c9ea3');
  expect(digest(encodeQrCode(long, 2))).toBe('c54d9a');
  expect(digest(encodeQrCode('x'.repeat(300), 0))).toBe('ca86b2d9');
});

test('the examples of the standard are reproduced', () => {
  const data = [0x10, 0x20, 0x0c, 0x56, 0x61, 0x80, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11];
  expect(errorCorrection(data, 10)).toEqual([0xa5, 0x24, 0xd4, 0xc1, 0xed, 0x36, 0xc7, 0x87, 0x2c, 0x55]);
  expect(formatBits(0b101)).toBe(0b100000011001110);
  expect(versionBits(7)).toBe(0b000111110010010100);
});

test('a code has the smallest version that fits', () => {
  const size = (length: number) => encodeQrCode('x'.repeat(length))?.length;
  // Capacities of versions 1, 2, 10 and 20 at level M, from the standard.
  expect([size(14), size(15), size(26), size(27)]).toEqual([21, 25, 25, 29]);
  expect([size(213), size(214)]).toEqual([57, 61]);
  expect([size(666), size(667)]).toEqual([97, undefined]);
});

test('one of the eight masks is chosen', () => {
  const all = [0, 1, 2, 3, 4, 5, 6, 7].map((mask) => digest(encodeQrCode('hello', mask)));
  expect(new Set(all).size).toBe(8);
  expect(all).toContain(digest(encodeQrCode('hello')));
});
