/** QR codes after ISO/IEC 18004: byte mode, error correction level M, versions 1 to 20, up to 666 bytes. Pure. */

/** Rows of modules; true is dark. Without a quiet zone. */
export type QrCode = readonly (readonly boolean[])[];

/** Level M by version: correction codewords per block, and number of blocks. */
const CORRECTION_CODEWORDS = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26];
const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16];

/** Encodes a text; undefined if it is too long. `mask` is for tests; by default the mask with the lowest penalty wins. */
export function encodeQrCode(text: string, mask?: number): QrCode | undefined {
  const bytes = new TextEncoder().encode(text);
  const version = versionFor(bytes.length);
  if (version === undefined) return undefined;
  const codewords = interleave(dataCodewords(bytes, version), version);
  const masks = mask === undefined ? [0, 1, 2, 3, 4, 5, 6, 7] : [mask];
  const codes = masks.map((number) => draw(version, codewords, number));
  const penalties = codes.map(penalty);
  return codes[penalties.indexOf(Math.min(...penalties))];
}

// --- Codewords ---

/** Number of data and correction codewords of a version. */
function allCodewords(version: number): number {
  const size = sizeOf(version);
  let free = 0;
  const taken = reservedModules(version);
  for (let at = 0; at < size * size; at++) if (!taken[at]) free += 1;
  return free >> 3;
}

function blockShape(version: number): { readonly correction: number; readonly blocks: number; readonly data: number } {
  const correction = CORRECTION_CODEWORDS[version - 1] ?? 0;
  const blocks = BLOCKS[version - 1] ?? 1;
  return { correction, blocks, data: allCodewords(version) - correction * blocks };
}

function versionFor(length: number): number | undefined {
  for (let version = 1; version <= BLOCKS.length; version++)
    if (4 + lengthBits(version) + 8 * length <= 8 * blockShape(version).data) return version;
  return undefined;
}

function lengthBits(version: number): number {
  return version < 10 ? 8 : 16;
}

/** Mode, length, bytes, terminator and padding. */
function dataCodewords(bytes: Uint8Array, version: number): readonly number[] {
  const bits: number[] = [];
  const put = (value: number, count: number) => {
    for (let at = count - 1; at >= 0; at--) bits.push((value >> at) & 1);
  };
  put(0b0100, 4);
  put(bytes.length, lengthBits(version));
  for (const byte of bytes) put(byte, 8);
  const { data } = blockShape(version);
  put(0, Math.min(4, data * 8 - bits.length));
  while (bits.length % 8) bits.push(0);
  const words: number[] = [];
  for (let at = 0; at < bits.length; at += 8)
    words.push(bits.slice(at, at + 8).reduce((word, bit) => (word << 1) | bit, 0));
  for (let filler = 0xec; words.length < data; filler ^= 0xec ^ 0x11) words.push(filler);
  return words;
}

/** Interleaves data blocks and their correction column by column; shorter blocks come first. */
function interleave(words: readonly number[], version: number): readonly number[] {
  const { blocks, correction, data } = blockShape(version);
  const short = Math.floor(data / blocks);
  const firstLong = blocks - (data % blocks);
  const parts: (readonly number[])[] = [];
  let at = 0;
  for (let block = 0; block < blocks; block++) {
    const length = short + (block >= firstLong ? 1 : 0);
    parts.push(words.slice(at, at + length));
    at += length;
  }
  const checks = parts.map((part) => errorCorrection(part, correction));
  return [...columns(parts), ...columns(checks)];
}

function columns(parts: readonly (readonly number[])[]): readonly number[] {
  const longest = Math.max(...parts.map((part) => part.length));
  const rows = Array.from({ length: longest }, (_, at) => parts.flatMap((part) => part.slice(at, at + 1)));
  return rows.flat();
}

/** Remainder of a polynomial division over GF(256): Reed-Solomon correction. */
export function errorCorrection(data: readonly number[], count: number): readonly number[] {
  let generator = [1];
  for (let power = 0, root = 1; power < count; power++, root = multiply(root, 2)) {
    const next = [...generator, 0];
    for (const [at, factor] of generator.entries()) next[at + 1] = (next[at + 1] ?? 0) ^ multiply(factor, root);
    generator = next;
  }
  const rest = [...data, ...new Array<number>(count).fill(0)];
  for (let at = 0; at < data.length; at++) {
    const factor = rest[at] ?? 0;
    for (const [step, coefficient] of generator.entries())
      rest[at + step] = (rest[at + step] ?? 0) ^ multiply(coefficient, factor);
  }
  return rest.slice(data.length);
}

function multiply(one: number, other: number): number {
  let product = 0;
  for (let a = one, b = other; b > 0; b >>= 1) {
    if (b & 1) product ^= a;
    a = a & 0x80 ? (a << 1) ^ 0x11d : a << 1;
  }
  return product;
}

// --- Modules ---

function sizeOf(version: number): number {
  return 17 + 4 * version;
}

/** Centers of the alignment patterns along one side. */
function alignmentPositions(version: number): readonly number[] {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2;
  const last = sizeOf(version) - 7;
  return [6, ...Array.from({ length: count - 1 }, (_, at) => last - step * (count - 2 - at))];
}

/** Draws the function patterns of a version: 1 is dark, 0 is light, undefined is free for data. */
function functionPatterns(version: number): (0 | 1 | undefined)[] {
  const size = sizeOf(version);
  const field = new Array<0 | 1 | undefined>(size * size).fill(undefined);
  const set = (x: number, y: number, dark: boolean) => {
    if (x >= 0 && y >= 0 && x < size && y < size) field[y * size + x] = dark ? 1 : 0;
  };
  const square = (x: number, y: number, reach: number, isDark: (distance: number) => boolean) => {
    for (let dy = -reach; dy <= reach; dy++)
      for (let dx = -reach; dx <= reach; dx++) set(x + dx, y + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  for (let at = 0; at < size; at++) {
    set(at, 6, at % 2 === 0);
    set(6, at, at % 2 === 0);
  }
  const places = alignmentPositions(version);
  const last = places.length - 1;
  for (const [row, y] of places.entries())
    for (const [column, x] of places.entries()) {
      const isFinder = (row === 0 && column === 0) || (row === 0 && column === last) || (row === last && column === 0);
      if (!isFinder) square(x, y, 2, (distance) => distance !== 1);
    }
  const corners = [[3, 3] as const, [size - 4, 3] as const, [3, size - 4] as const];
  for (const [x, y] of corners) square(x, y, 4, (distance) => distance !== 2 && distance !== 4);
  for (const [x, y] of formatPositions(size).flat()) set(x, y, false);
  set(8, size - 8, true);
  if (version >= 7) {
    const bits = versionBits(version);
    for (let at = 0; at < 18; at++) {
      const [far, near] = [size - 11 + (at % 3), Math.floor(at / 3)];
      set(far, near, ((bits >> at) & 1) === 1);
      set(near, far, ((bits >> at) & 1) === 1);
    }
  }
  return field;
}

function reservedModules(version: number): readonly boolean[] {
  return functionPatterns(version).map((module) => module !== undefined);
}

/** Positions of the format bits, lowest first; they appear twice. */
function formatPositions(size: number): readonly (readonly (readonly [number, number])[])[] {
  const along = [0, 1, 2, 3, 4, 5, 7, 8];
  const beside = [7, 5, 4, 3, 2, 1, 0];
  return [
    [...along.map((y) => [8, y] as const), ...beside.map((x) => [x, 8] as const)],
    [
      ...Array.from({ length: 8 }, (_, at) => [size - 1 - at, 8] as const),
      ...Array.from({ length: 7 }, (_, at) => [8, size - 7 + at] as const),
    ],
  ];
}

/** Level M and mask with error correction. */
export function formatBits(mask: number): number {
  return ((mask << 10) | remainder(mask, 10, 0b10100110111)) ^ 0b101010000010010;
}

export function versionBits(version: number): number {
  return (version << 12) | remainder(version, 12, 0b1111100100101);
}

function remainder(value: number, bits: number, divisor: number): number {
  let rest = value << bits;
  while (rest >= 1 << bits) rest ^= divisor << (31 - Math.clz32(rest) - bits);
  return rest;
}

const MASKS: readonly ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

function draw(version: number, codewords: readonly number[], mask: number): QrCode {
  const size = sizeOf(version);
  const field = functionPatterns(version);
  const isMasked = MASKS[mask] ?? (() => false);
  let bit = 0;
  for (const [x, y] of zigzag(size)) {
    if (field[y * size + x] !== undefined) continue;
    const dark = (((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
    bit += 1;
    field[y * size + x] = dark !== isMasked(x, y) ? 1 : 0;
  }
  const format = formatBits(mask);
  for (const places of formatPositions(size))
    for (const [at, [x, y]] of places.entries()) field[y * size + x] = (format >> at) & 1 ? 1 : 0;
  return Array.from({ length: size }, (_, y) => field.slice(y * size, (y + 1) * size).map((module) => module === 1));
}

/** The order of data modules: two columns at a time from the right, alternating up and down. */
function* zigzag(size: number): Generator<readonly [number, number]> {
  let up = true;
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const y = up ? size - 1 - step : step;
      yield [right, y];
      yield [right - 1, y];
    }
    up = !up;
  }
}

// --- Which mask is the most readable ---

function penalty(code: QrCode): number {
  const size = code.length;
  const turned = code.map((_, at) => code.map((row) => row[at] ?? false));
  const lines = [...code, ...turned].map((row) => row.map((dark) => (dark ? '1' : '0')).join(''));
  let points = 0;
  for (const line of lines) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) points += run.length - 2;
    // Pattern that resembles a finder pattern.
    points += 40 * [...line.matchAll(/(?=10111010000|00001011101)/g)].length;
  }
  let dark = 0;
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) {
      const module = code[y]?.[x];
      if (module) dark += 1;
      if (
        x > 0 &&
        y > 0 &&
        code[y - 1]?.[x] === module &&
        code[y]?.[x - 1] === module &&
        code[y - 1]?.[x - 1] === module
      )
        points += 3;
    }
  return points + 10 * Math.floor(Math.abs((dark * 20) / (size * size) - 10));
}
