import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { compress } from './compress.ts';

// The development server proxies requests to a host: `HOSTLER_URL=http://127.0.0.1:8137 npm run dev`, with a host started
// with `--no-token`. The proxy replaces the origin, since the page's origin is not the host's.
const { HOSTLER_URL = 'http://127.0.0.1:8137' } = process.env;
const host = { target: HOSTLER_URL, changeOrigin: true, headers: { origin: HOSTLER_URL } };

export default defineConfig({
  plugins: [svelte(), compress()],
  // `node_modules` may be shared by several clones, so the cache is elsewhere.
  cacheDir: '.vite',
  build: { target: 'es2022', sourcemap: false, emptyOutDir: true, reportCompressedSize: true, assetsInlineLimit: 0 },
  server: { proxy: { '/ahp': { ...host, ws: true }, '/sign-in': host, '/sign-out': host } },
  test: {
    include: ['tests/**/*.test.ts'],
    environment: 'node',
    // Generous, for slow machines; a missing event still fails with its name.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'threads',
  },
});
