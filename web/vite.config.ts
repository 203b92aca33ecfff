import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { compress } from './compress.ts';

// For development, Vite serves the page and forwards requests for the host: `HOSTLER_URL=http://127.0.0.1:8137 npm run dev`, with a
// host that runs with `--no-token`. The page's origin differs from the host's, so the header is replaced.
const { HOSTLER_URL = 'http://127.0.0.1:8137' } = process.env;
const host = { target: HOSTLER_URL, changeOrigin: true, headers: { origin: HOSTLER_URL } };

export default defineConfig({
  plugins: [svelte(), compress()],
  // `node_modules` may be shared by several clones, so nothing is written there.
  cacheDir: '.vite',
  build: { target: 'es2022', sourcemap: false, emptyOutDir: true, reportCompressedSize: true, assetsInlineLimit: 0 },
  server: { proxy: { '/ahp': { ...host, ws: true }, '/sign-in': host, '/sign-out': host } },
  test: {
    // A test that waits for a fact that never comes says so; a busy machine may take its time.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'threads',
    projects: [
      {
        extends: true,
        test: {
          name: 'modules',
          include: ['tests/**/*.test.ts'],
          exclude: ['tests/components/**'],
          environment: 'node',
        },
      },
      {
        // Components in a simulated document, without layout. `browser/` tests what needs a browser.
        extends: true,
        resolve: { conditions: ['browser'] },
        test: {
          name: 'components',
          include: ['tests/components/**/*.test.ts'],
          environment: 'happy-dom',
          setupFiles: ['tests/components/support/setup.ts'],
        },
      },
    ],
  },
});
