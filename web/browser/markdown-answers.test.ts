/** Answers: Markdown, code, reasoning, errors and usage. */

import { expect, test } from 'vitest';
import { findViolations } from './support/axe.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptThinking } from './support/model-script.ts';

const browserTest = sharedHarness();

const CODE = 'fn main() {\n    println!("hello");\n}\n';
const MARKDOWN = `# What I found

Some **strong** and *soft* text, \`code\` and a [link](https://example.org/page).

- one
- two

| lamp | oil |
|------|----:|
| old  |   3 |

\`\`\`rust
${CODE}\`\`\`

> Said before.`;

test(
  'a Markdown answer is formatted, with highlighted code that can be copied',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createAnsweredSession(scriptText(MARKDOWN));
    const context = await harness.signIn(await harness.newContext());
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const page = await harness.openPage(sessionPath(uri), context);
    const answer = page.getByRole('region', { name: 'Conversation' });
    await answer.getByRole('heading', { name: 'What I found' }).waitFor();
    await answer.getByRole('listitem').filter({ hasText: 'two' }).waitFor();
    await answer.getByRole('cell', { name: '3' }).waitFor();
    await answer.getByRole('blockquote').getByText('Said before.').waitFor();
    const link = answer.getByRole('link', { name: 'link' });
    expect(await link.getAttribute('href')).toBe('https://example.org/page');
    expect(await link.getAttribute('rel')).toContain('noopener');

    const code = answer.getByRole('group', { name: 'Code in rust' });
    const keyword = code.locator('span').filter({ hasText: /^fn$/ });
    await keyword.waitFor();
    const color = (at: typeof keyword) => at.evaluate((element) => getComputedStyle(element).color);
    expect(await color(keyword)).not.toBe(await color(code));
    await answer.getByRole('button', { name: 'Copy code' }).click();
    await answer.getByText('Copied').first().waitFor();
    expect((await page.evaluate(() => navigator.clipboard.readText())).trim()).toBe(CODE.trim());
    await answer.getByRole('button', { name: 'Copy answer' }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(MARKDOWN);
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'reasoning is collapsed and expands on click',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(
      scriptMessage(
        '!pace 30',
        scriptThinking('The user wants both of them, I think.'),
        '!wait 800',
        scriptText('Both.'),
      ),
    );
    const answer = page.getByRole('region', { name: 'Conversation' });
    await answer.getByRole('button', { name: /^Thinking/ }).waitFor();
    await answer.getByText('Both.', { exact: true }).waitFor();
    const fold = answer.getByRole('button', { name: /^Thought.*8 words/ });
    expect(await fold.getAttribute('aria-expanded')).toBe('false');
    const thoughts = answer.getByRole('paragraph').filter({ hasText: /^The user wants both/ });
    await expect.poll(() => thoughts.count()).toBe(0);
    await fold.click();
    await thoughts.waitFor();
  }),
);

test(
  'a failed turn shows the error and can be resumed',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage('!error 400 This model is on holiday.'));
    await page.getByText('The model provider rejected the request').waitFor();
    await page
      .getByText(/This model is on holiday\..*\S+ \S+/)
      .first()
      .waitFor();
    expect(await findViolations(page)).toEqual([]);
    // The resumed turn fails again; the first error stays visible, and the turn can be resumed again.
    await page.getByRole('button', { name: 'Resume this turn' }).click();
    await expect.poll(() => page.getByText('The model provider rejected the request').count()).toBe(2);
    await expect.poll(() => page.getByRole('button', { name: 'Resume this turn' }).count()).toBe(1);

    // A new message also continues.
    await page.getByRole('textbox', { name: 'Message' }).fill('never mind');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('You said: never mind').waitFor();
    await expect.poll(() => page.getByRole('button', { name: 'Resume this turn' }).count()).toBe(0);
  }),
);

test(
  'turn usage, session usage and context usage are displayed',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createAnsweredSession('count me');
    const page = await harness.openPage(sessionPath(uri));
    await page.getByText(/\d m?s · .* in · .* out · \$0\.\d+/).waitFor();
    const meter = page.getByRole('meter', { name: 'Context used' });
    expect(await meter.getAttribute('aria-valuetext')).toMatch(/^\d+k of 200k tokens of context$/);
    expect(Number(await meter.getAttribute('aria-valuenow'))).toBeGreaterThan(0);

    await page.getByRole('button', { name: 'Session menu' }).click();
    await page.getByRole('menuitem', { name: 'Details' }).click();
    const details = page.getByRole('dialog', { name: 'Session details' });
    const detail = (name: string) => details.locator(`dt:text-is("${name}") + dd`);
    await expect.poll(() => detail('Cost').textContent()).toMatch(/^\$0\.\d+$/);
    await expect.poll(() => detail('Input').textContent()).toMatch(/^[\d,]+ tokens$/);
    await expect.poll(() => detail('Context').textContent()).toMatch(/of 200,000 tokens$/);
    await expect.poll(() => detail('Folder').textContent()).toBe(harness.host.path('work'));
    expect(await findViolations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await details.waitFor({ state: 'hidden' });
  }),
);
