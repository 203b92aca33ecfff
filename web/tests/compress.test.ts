/** Compressed copies of build output. */

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { compressAll } from '../compress.ts';

test('text files get compressed copies only when they are smaller', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'hostler-test-'));
  try {
    const script = 'let answer = 42;\n'.repeat(100);
    await mkdir(join(directory, 'assets'));
    await writeFile(join(directory, 'assets', 'index-12345678.js'), script);
    await writeFile(join(directory, 'tiny.css'), 'a{}');
    await writeFile(join(directory, 'icon.png'), Buffer.alloc(1000));
    await compressAll(directory);
    expect((await readdir(directory)).sort()).toEqual(['assets', 'icon.png', 'tiny.css']);
    const assets = join(directory, 'assets');
    expect((await readdir(assets)).sort()).toEqual([
      'index-12345678.js',
      'index-12345678.js.br',
      'index-12345678.js.gz',
    ]);
    const copy = (suffix: string) => readFile(join(assets, `index-12345678.js${suffix}`));
    expect(brotliDecompressSync(await copy('.br')).toString()).toBe(script);
    expect(gunzipSync(await copy('.gz')).toString()).toBe(script);
  } finally {
    await rm(directory, { recursive: true });
  }
});
