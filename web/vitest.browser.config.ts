import { defineConfig } from 'vitest/config';

// The page in a real browser on a real host: `cargo xtask web --browser` builds both and passes their paths.
export default defineConfig({
  cacheDir: '.vite',
  test: {
    include: ['browser/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    // Each worker runs a browser, a host and agents.
    maxWorkers: 2,
    retry: 0,
    // Every wait inside a test has a shorter limit, so that it reports what is missing.
    testTimeout: 180_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000, interval: 50 } },
  },
});
