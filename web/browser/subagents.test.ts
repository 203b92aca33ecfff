/** Sub-agents and background commands. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';

const browserTest = sharedHarness();

function subAgentScript(description: string, ...lines: string[]): string {
  const prompt = lines.join('\n');
  return scriptToolCall('Agent', { description, prompt, subagent_type: 'general-purpose', run_in_background: false });
}

test(
  'a sub-agent chat opens from its tool call and leads back',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const command = { command: 'mkdir nest', description: 'Builds a nest' };
    await chat.send(
      scriptMessage(
        subAgentScript('look for birds', scriptToolCall('Bash', command), scriptText('I found a wren.')),
        scriptText('The helper is back.'),
      ),
    );
    // The sub-agent's request also appears in the main chat.
    const strip = page.getByRole('region', { name: 'Pending requests' });
    await strip.getByText(/in look for birds/).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await strip.getByRole('button', { name: 'Show' }).click();
    await page.getByRole('group', { name: 'A sub-agent wants to use Bash' }).waitFor();
    await expect.poll(() => page.getByRole('button', { name: 'Jump to latest' }).count()).toBe(0);
    expect(page.url()).toContain('subagent');
    await page.getByText('You can read it and answer its requests').waitFor();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Allow once' }).click();
    await page.getByText('I found a wren.', { exact: true }).waitFor();
    expect(await findViolations(page)).toEqual([]);

    await page.goBack();
    await page.getByText('The helper is back.', { exact: true }).waitFor();
    await page.getByRole('link', { name: /Open chat.*look for birds/ }).click();
    await page.getByText('I found a wren.', { exact: true }).waitFor();
    await page
      .getByRole('navigation', { name: 'Chats of this session' })
      .getByRole('link', { name: 'Main chat' })
      .click();
    await page.getByText('The helper is back.', { exact: true }).waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
  }),
);

test(
  'a background command is listed, streams its output, and can be stopped',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const command = 'echo tick; until [ -e tock ]; do sleep 0.05; done; echo tock; sleep 600';
    const input = { command, description: 'A clock', run_in_background: true };
    await chat.send(scriptMessage(scriptToolCall('Bash', input), scriptText('It ticks.')));
    await page.getByRole('button', { name: 'Allow once' }).click();
    await page.getByText('It ticks.', { exact: true }).waitFor();

    await page.getByRole('button', { name: /1 in the background.*A clock/ }).click();
    await page.getByRole('button', { name: 'Output of A clock' }).click();
    const dialog = page.getByRole('dialog', { name: 'A clock' });
    const output = dialog.getByRole('group', { name: 'Output' });
    await output.getByText('tick').waitFor();
    expect(await output.textContent()).not.toContain('tock');
    writeFileSync(join(harness.host.path('work'), 'tock'), '');
    await output.getByText('tock').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });

    await page.getByRole('button', { name: 'Stop A clock' }).click();
    await page.getByRole('button', { name: /in the background/ }).waitFor({ state: 'hidden' });
    await until(chat.view, ({ state }) => (state?.backgroundWork?.length ?? 0) === 0);
  }),
);
