/** Wraps tests with a browser harness. */

import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { launch } from './chromium.ts';
import { BrowserHarness } from './harness.ts';

/** One browser for all tests of a file. */
let browser: Promise<Browser> | undefined;
afterAll(async () => {
  await (await browser)?.close();
});

type HarnessTest = (harness: BrowserHarness) => Promise<void>;
type VitestTest = (context: TestContext) => Promise<void>;

/** Runs a test with its own harness; unexpected page problems fail it. */
export function withHarness(run: HarnessTest): VitestTest {
  return async ({ task, onTestFinished }) => {
    browser ??= launch();
    const harness = await BrowserHarness.create(await browser);
    onTestFinished(async () => {
      if (task.result?.state === 'fail') await harness.saveArtifacts(task.name);
      await harness.dispose();
    });
    await run(harness);
    harness.guard.check();
  };
}

/** Runs tests of a file with one shared harness and prepared data. */
export type SharedHarness<T> = (
  run: (harness: BrowserHarness, prepared: T) => Promise<void>,
) => (context: TestContext) => Promise<void>;

/**
 * For files with independent tests: the host starts once, and each test closes its browsers. Expected problems apply to
 * one test.
 */
export function sharedHarness(): SharedHarness<undefined>;
export function sharedHarness<T>(prepare: (harness: BrowserHarness) => Promise<T>): SharedHarness<T>;
export function sharedHarness<T>(prepare?: (harness: BrowserHarness) => Promise<T>): SharedHarness<T | undefined> {
  let made: Promise<{ stage: BrowserHarness; prepared: T | undefined }> | undefined;
  const begin = async () => {
    browser ??= launch();
    const harness = await BrowserHarness.create(await browser);
    try {
      const prepared = await prepare?.(harness);
      harness.keepClients();
      return { stage: harness, prepared };
    } catch (error) {
      await harness.dispose();
      throw error;
    }
  };
  afterAll(async () => {
    await (await made?.catch(() => undefined))?.stage.dispose();
  });
  return (run) =>
    async ({ task, onTestFinished }) => {
      made ??= begin();
      const { stage: harness, prepared } = await made;
      onTestFinished(async () => {
        if (task.result?.state === 'fail') await harness.saveArtifacts(task.name);
        await harness.reset();
      });
      await run(harness, prepared);
      harness.guard.check();
    };
}
