/** Accessibility checks with axe-core. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const SOURCE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

interface Finding {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** One line per violation. Runs through the debugger, which bypasses the content security policy. */
export async function findViolations(page: Page, rules: readonly string[] = RULES): Promise<string[]> {
  const debug = await page.context().newCDPSession(page);
  const evaluate = async (expression: string) => {
    const { result, exceptionDetails } = await debug.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value as unknown;
  };
  try {
    await evaluate(`typeof axe === 'undefined' && (() => { ${SOURCE} })()`);
    const options = JSON.stringify({ runOnly: rules, resultTypes: ['violations'] });
    const found = await evaluate(`axe.run(document, ${options}).then(({ violations }) => violations)`);
    return (found as Finding[]).flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, failureSummary = '' }) => `${id}: ${help}: ${html} ${failureSummary.replace(/\s+/g, ' ')}`),
    );
  } finally {
    await debug.detach();
  }
}
