import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Plugin } from 'vite';

/** Text files. Images and fonts are compressed already. */
const TEXT = /\.(html|js|css|svg|json|webmanifest|txt|ico)$/;

const ways = {
  '.br': (content: Buffer) =>
    promisify(brotliCompress)(content, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
    }),
  '.gz': (content: Buffer) => promisify(gzip)(content, { level: 9 }),
};

/** Puts compressed copies beside the files of a directory, where they are smaller. The host sends them as they are. */
export async function compressAll(directory: string): Promise<void> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && TEXT.test(entry.name));
  const copies = files.flatMap(({ parentPath, name }) =>
    Object.entries(ways).map(async ([suffix, compressed]) => {
      const path = join(parentPath, name);
      const content = await readFile(path);
      const copy = await compressed(content);
      if (copy.length < content.length) {
        await writeFile(path + suffix, copy);
      }
    }),
  );
  await Promise.all(copies);
}

/** Does so with every build: once, instead of with every request. */
export function compress(): Plugin {
  let directory = 'dist';
  return {
    name: 'hostler-compress',
    apply: 'build',
    configResolved(config) {
      directory = join(config.root, config.build.outDir);
    },
    async writeBundle() {
      await compressAll(directory);
    },
  };
}
