/** Stages for tests. */

import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { launch } from './chromium.ts';
import { BrowserHarness } from './harness.ts';

/** One for all tests of a file. */
let browser: Promise<Browser> | undefined;
afterAll(async () => {
  await (await browser)?.close();
});

type HarnessTest = (harness: BrowserHarness) => Promise<void>;
type VitestTest = (context: TestContext) => Promise<void>;

/** A test on a stage of its own, which fails too if the page has had problems that the test does not expect. */
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

/** One stage for all tests of a file that asks for it, and what was prepared there. */
export type SharedHarness<T> = (
  run: (harness: BrowserHarness, prepared: T) => Promise<void>,
) => (context: TestContext) => Promise<void>;

/**
 * For files whose tests do not get into each other's way: a host is started once, and each test closes its browsers.
 * What is expected of the guard holds for the test that says so.
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
