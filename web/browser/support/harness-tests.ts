/** Stages for tests. */

import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { launch } from './chromium.ts';
import { Stage } from './harness.ts';

/** One for all tests of a file. */
let browser: Promise<Browser> | undefined;
afterAll(async () => {
  await (await browser)?.close();
});

type Play = (stage: Stage) => Promise<void>;
type Test = (context: TestContext) => Promise<void>;

/** A test on a stage of its own, which fails too if the page has had problems that the test does not expect. */
export function staged(play: Play): Test {
  return async ({ task, onTestFinished }) => {
    browser ??= launch();
    const stage = await Stage.begin(await browser);
    onTestFinished(async () => {
      if (task.result?.state === 'fail') await stage.keep(task.name);
      await stage.end();
    });
    await play(stage);
    stage.guard.check();
  };
}

/** One stage for all tests of a file that asks for it, and what was prepared there. */
export type Shared<T> = (play: (stage: Stage, prepared: T) => Promise<void>) => (context: TestContext) => Promise<void>;

/**
 * For files whose tests do not get into each other's way: a host is started once, and each test closes its browsers.
 * What is expected of the guard holds for the test that says so.
 */
export function shared(): Shared<undefined>;
export function shared<T>(prepare: (stage: Stage) => Promise<T>): Shared<T>;
export function shared<T>(prepare?: (stage: Stage) => Promise<T>): Shared<T | undefined> {
  let made: Promise<{ stage: Stage; prepared: T | undefined }> | undefined;
  const begin = async () => {
    browser ??= launch();
    const stage = await Stage.begin(await browser);
    try {
      const prepared = await prepare?.(stage);
      stage.keepClients();
      return { stage, prepared };
    } catch (error) {
      await stage.end();
      throw error;
    }
  };
  afterAll(async () => {
    await (await made?.catch(() => undefined))?.stage.end();
  });
  return (play) =>
    async ({ task, onTestFinished }) => {
      made ??= begin();
      const { stage, prepared } = await made;
      onTestFinished(async () => {
        if (task.result?.state === 'fail') await stage.keep(task.name);
        await stage.clear();
      });
      await play(stage, prepared);
      stage.guard.check();
    };
}
