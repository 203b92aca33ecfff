import { defineConfig } from 'vitest/config';

// The page in a real browser, on a real host: `cargo xtask web --browser` builds both and says where they are.
export default defineConfig({
  cacheDir: '.vite',
  test: {
    include: ['browser/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    // A browser, a host and agents each: more of them at a time would only wait for each other.
    maxWorkers: 2,
    retry: 0,
    // Everything that a test waits for has a shorter limit, so that it can say what did not come.
    testTimeout: 180_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000, interval: 50 } },
  },
});
