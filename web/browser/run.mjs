/** Runs a TypeScript program of this directory: `node browser/run.mjs FILE [ARGUMENT…]`. */

import { resolve } from 'node:path';
import { argv } from 'node:process';
import { runnerImport } from 'vite';

const [, , file, ...rest] = argv;
const { module } = await runnerImport(resolve(file), { configFile: false, logLevel: 'error' });
await module.main(...rest);
