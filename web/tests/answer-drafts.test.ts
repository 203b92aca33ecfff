/** Drafts of answers to questions. */

import { expect, test } from 'vitest';
import type { Answer, ChatInputRequest, Question } from '../src/ahp/index.ts';
import { EMPTY_ENTRY } from '../src/tools/question-answers.ts';
import { AnswerDrafts } from '../src/tools/questions/answer-drafts.svelte.ts';

const question: Question = { kind: 'text', id: 'q', message: '?' };
const choice: Question = { kind: 'single-select', id: 'c', message: '?', options: [], allowFreeformInput: true };
const request: ChatInputRequest = { id: 'r', questions: [question, choice] };
const theirs: Answer = { state: 'draft', value: { kind: 'text', value: 'theirs' } };
const settled = () => new Promise((resolve) => setTimeout(resolve));

test('a saved draft follows the host and the changes of other clients', async () => {
  const drafts = new AnswerDrafts();
  const saved: unknown[] = [];
  drafts.set(question, { ...EMPTY_ENTRY, text: 'mine' }, async (answer) => saved.push(answer) > 0);
  expect(drafts.entry({ ...request, answers: { q: theirs } }, question).text).toBe('mine');
  await settled();
  expect(saved).toEqual([{ state: 'draft', value: { kind: 'text', value: 'mine' } }]);
  expect(drafts.entry({ ...request, answers: { q: theirs } }, question).text).toBe('theirs');
  expect(drafts.unsavedText).toBe('');
});

test('a rejected draft stays local', async () => {
  const drafts = new AnswerDrafts();
  drafts.set(question, { ...EMPTY_ENTRY, text: 'mine' }, async () => false);
  await settled();
  expect(drafts.entry(request, question).text).toBe('mine');
  expect(drafts.unsavedText).toBe('mine');
  drafts.clear();
  expect(drafts.unsavedText).toBe('');
});

test('trailing spaces survive a save while typing', async () => {
  const drafts = new AnswerDrafts();
  drafts.set(choice, { ...EMPTY_ENTRY, text: 'own ' }, async () => true);
  await settled();
  expect(drafts.entry(request, choice).text).toBe('own ');
  expect(drafts.unsavedText).toBe('');
});

test('an invalid answer is not sent as a draft', async () => {
  const drafts = new AnswerDrafts();
  const number: Question = { kind: 'integer', id: 'n', message: '?' };
  let isSent = false;
  drafts.set(number, { ...EMPTY_ENTRY, text: '2.x' }, async () => {
    isSent = true;
    return true;
  });
  await settled();
  expect(isSent).toBe(false);
  expect(drafts.entry(request, number).text).toBe('2.x');
});
