import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  // `node_modules` may be shared by several clones, so nothing is written there.
  cacheDir: '.vite',
  build: { target: 'es2022', sourcemap: false, emptyOutDir: true, reportCompressedSize: true },
  test: {
    include: ['tests/**/*.test.ts'],
    environment: 'node',
    // A test that waits for a fact that never comes says so; a busy machine may take its time.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'threads',
  },
});
