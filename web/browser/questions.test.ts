/** Questions of the agent and plan approval. */

import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { until } from '../tests/support/fake-server.ts';
import { findViolations } from './support/axe.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';
import { hasEndedTurns } from './support/second-client.ts';

const browserTest = sharedHarness();

const COLOR_QUESTION = {
  question: 'Which colour has the door?',
  header: 'Colour',
  multiSelect: false,
  options: [
    { label: 'Red', description: 'As a rose' },
    { label: 'Blue', description: 'As the sea' },
  ],
};
const SIZES = {
  question: 'Which sizes are wanted?',
  header: 'Sizes',
  multiSelect: true,
  options: [
    { label: 'Small', description: 'For one' },
    { label: 'Middle', description: 'For two' },
    { label: 'Large', description: 'For many' },
  ],
};
const NAME = {
  question: 'What is it called?',
  header: 'Name',
  multiSelect: false,
  options: [
    { label: 'Dolphin', description: 'As before' },
    { label: 'Whale', description: 'Larger' },
  ],
};

function ask(...questions: readonly object[]): string {
  return scriptToolCall('AskUserQuestion', { questions });
}

/** The answer shown beside its question. */
function answerTo(page: Page, { question }: typeof COLOR_QUESTION): Locator {
  return page.locator('dl > div').filter({ hasText: question }).getByRole('definition');
}

test(
  'three questions are answered in turn: single choice, multiple choice, free text',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage(ask(COLOR_QUESTION, SIZES, NAME), scriptText('Thank you.')));
    const card = page.getByRole('group', { name: 'The agent has 3 questions' });
    await card.getByRole('group', { name: COLOR_QUESTION.question }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await card.getByRole('radio', { name: /Blue/ }).check();
    await card.getByRole('button', { name: 'Next' }).click();

    // Another page shows the answer drafts.
    const other = await harness.openPage(sessionPath(uri), 'phone');
    await expect.poll(() => other.getByRole('radio', { name: /Blue/ }).isChecked()).toBe(true);

    await card.getByRole('checkbox', { name: /Small/ }).check();
    await card.getByRole('checkbox', { name: /Large/ }).check();
    await card.getByRole('textbox', { name: 'Additional answer' }).fill('and tiny');
    await card.getByRole('button', { name: 'Next' }).click();
    await card.getByRole('textbox', { name: 'Other answer' }).fill('Porpoise');

    // Going back shows the previous answer.
    await card.getByRole('button', { name: /Sizes/ }).click();
    await expect.poll(() => card.getByRole('checkbox', { name: /Large/ }).isChecked()).toBe(true);
    await expect.poll(() => card.getByRole('checkbox', { name: /Middle/ }).isChecked()).toBe(false);
    await card.getByRole('button', { name: /Name/ }).click();
    await card.getByRole('button', { name: 'Send answers' }).click();

    await page.getByText('Thank you.', { exact: true }).waitFor();
    for (const one of [page, other]) {
      await answerTo(one, COLOR_QUESTION).filter({ hasText: 'Blue' }).waitFor();
      await answerTo(one, SIZES)
        .filter({ hasText: /Small.*Large.*and tiny/ })
        .waitFor();
      await answerTo(one, NAME).filter({ hasText: 'Porpoise' }).waitFor();
    }
    // The agent received it.
    const { state } = await until(chat.view, hasEndedTurns(1));
    const calls = state?.turns[0]?.responseParts.filter(({ kind }) => kind === 'toolCall');
    const modelRequest = calls?.map(
      (part) => part.kind === 'toolCall' && 'content' in part.toolCall && part.toolCall.content,
    );
    for (const answer of ['Blue', 'Small', 'Large', 'and tiny', 'Porpoise'])
      expect(JSON.stringify(modelRequest)).toContain(answer);
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'a question is answered by keyboard, another is declined, and one is dismissed',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(
      scriptMessage(
        ask(COLOR_QUESTION),
        scriptText('One.'),
        ask(NAME),
        scriptText('Two.'),
        ask(SIZES),
        scriptText('Three.'),
      ),
    );
    const card = page.getByRole('group', { name: 'The agent has a question' });
    await card.waitFor();
    await card.focus();
    await page.keyboard.press('2');
    await expect.poll(() => card.getByRole('radio', { name: /Blue/ }).isChecked()).toBe(true);
    await page.keyboard.press('Enter');
    await answerTo(page, COLOR_QUESTION).filter({ hasText: 'Blue' }).waitFor();

    await card.getByRole('group', { name: NAME.question }).waitFor();
    await card.getByRole('button', { name: 'Decline' }).click();
    await page.getByText('Declined to answer').waitFor();
    await card.getByRole('group', { name: SIZES.question }).waitFor();
    await card.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('Dismissed without an answer').waitFor();
    await page.getByText('Three.', { exact: true }).waitFor();
  }),
);

test(
  'a plan is sent back with feedback, and the next plan is approved',
  browserTest(async (harness) => {
    const { uri, session, chat } = await (await harness.connectClient()).createSession();
    await session.configure({ permissionMode: 'plan' });
    const page = await harness.openPage(sessionPath(uri));
    const plan = (text: string) => scriptToolCall('ExitPlanMode', { plan: text });
    const first = '# The first plan\n\n1. Buy **paint**\n2. Paint the door';
    await chat.send(
      scriptMessage(plan(first), scriptText('I think again.'), plan('Paint it *twice*.'), scriptText('On it.')),
    );
    const card = page.getByRole('group', { name: 'The agent proposes a plan' });
    await card.getByRole('heading', { name: 'The first plan' }).waitFor();
    await card.getByRole('listitem').filter({ hasText: 'Buy paint' }).waitFor();
    expect(await findViolations(page)).toEqual([]);

    await card.getByRole('button', { name: /…$/ }).click();
    await card.getByRole('textbox', { name: 'What should be different?' }).fill('Twice, please');
    await card.getByRole('button', { name: 'Keep planning with this' }).click();
    await page.getByText('Twice, please', { exact: true }).waitFor();
    await page.getByText('I think again.', { exact: true }).waitFor();

    await card.getByText('twice').waitFor();
    await card.getByRole('button').first().click();
    await page.getByText('On it.', { exact: true }).waitFor();
    await page
      .getByText(/^Plan: /)
      .last()
      .waitFor();
    // The approved plan stays readable, and the session has left plan mode.
    await page.getByText('Show the plan').last().click();
    await page.getByText('Paint it twice.').waitFor();
    await until(session.view, ({ state }) => state?.config?.values.permissionMode !== 'plan');
    await page.getByRole('button', { name: /^Permission mode: (?!.*[Pp]lan)/ }).waitFor();
  }),
);
