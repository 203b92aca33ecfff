/** Stages for tests. */

import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { launch } from './chromium.ts';
import { Stage } from './stage.ts';

/** One for all tests of a file. */
let browser: Promise<Browser> | undefined;
afterAll(async () => {
  await (await browser)?.close();
});

/** A test on a stage of its own, which fails too if the page has had problems that the test does not expect. */
export function staged(play: (stage: Stage) => Promise<void>): (context: TestContext) => Promise<void> {
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
