/** Answers to questions and confirmation options. */

import { describe, expect, test } from 'vitest';
import type { ChatInputRequest, ConfirmationOption, Question } from '../src/ahp/index.ts';
import {
  confirmationChoices,
  editedInputDecision,
  optionDecision,
  validateJsonObject,
} from '../src/tools/confirmation-options.ts';
import {
  answerSummary,
  answerToEntry,
  buildAnswers,
  EMPTY_ENTRY,
  entryToAnswer,
  isPlanRequest,
  type QuestionEntry,
  setFreeformText,
  toggleOption,
  validateEntry,
} from '../src/tools/question-answers.ts';

const options = [
  { id: 'a', label: 'Apples' },
  { id: 'b', label: 'Bread' },
];
const one: Question = { kind: 'single-select', id: 'one', message: '?', options, allowFreeformInput: true };
const many: Question = { kind: 'multi-select', id: 'many', message: '?', options, min: 1, max: 2 };
const typedText: Question = { kind: 'text', id: 'typedText', message: '?' };
const whole: Question = { kind: 'integer', id: 'whole', message: '?', min: 1, max: 9 };
const typed = (text: string): QuestionEntry => ({ ...EMPTY_ENTRY, text });

describe('an answer', () => {
  test('survives a round trip to the host', () => {
    const cases: [Question, QuestionEntry][] = [
      [one, { selectedIds: ['a'], text: '' }],
      [one, { selectedIds: [], text: 'neither' }],
      [many, { selectedIds: ['b', 'a'], text: 'and more' }],
      [typedText, typed('hello')],
      [whole, typed('7')],
      [
        { kind: 'boolean', id: 'yes', message: '?' },
        { ...EMPTY_ENTRY, booleanValue: false },
      ],
      [typedText, { ...EMPTY_ENTRY, isSkipped: true }],
    ];
    for (const [question, entry] of cases)
      expect(answerToEntry(question, entryToAnswer(question, entry, 'draft')), question.id).toEqual(entry);
  });

  test('is undefined when empty', () => {
    for (const question of [one, many, typedText, whole]) {
      expect(entryToAnswer(question, EMPTY_ENTRY, 'draft')).toBeUndefined();
      expect(validateEntry(question, EMPTY_ENTRY)).toBeUndefined();
      expect(validateEntry({ ...question, required: true }, EMPTY_ENTRY)).toBe('An answer is required.');
    }
  });

  test('starts with the default of the question', () => {
    expect(answerToEntry({ ...typedText, defaultValue: 'main' }, undefined).text).toBe('main');
    expect(answerToEntry({ kind: 'boolean', id: 'x', message: '?', defaultValue: true }, undefined).booleanValue).toBe(
      true,
    );
    expect(answerToEntry({ ...whole, defaultValue: 0 }, undefined).text).toBe('0');
  });

  test('is validated', () => {
    const cases: [Question, string, string | undefined][] = [
      [{ ...typedText, min: 3 }, 'ab', 'Enter at least 3 characters.'],
      [{ ...typedText, max: 1 }, 'ab', 'Enter at most 1 character.'],
      [{ ...typedText, max: 1 }, '🐎', undefined],
      [{ ...typedText, format: 'email' }, 'ada', 'Enter a valid email address.'],
      [{ ...typedText, format: 'email' }, 'ada@example.com', undefined],
      [{ ...typedText, format: 'uri' }, 'example', 'Enter a full URL, such as https://example.com.'],
      [{ ...typedText, format: 'date' }, '2026-13-01', 'Enter a valid date.'],
      [{ ...typedText, format: 'date-time' }, '2026-01-01T10:00', undefined],
      [{ ...typedText, format: 'brand-new' }, 'anything', undefined],
      [whole, '2.5', 'Enter a whole number.'],
      [whole, 'two', 'Enter a whole number.'],
      [whole, '0', 'Enter at least 1.'],
      [whole, '10', 'Enter at most 9.'],
      [whole, '9', undefined],
      [{ ...whole, kind: 'number' }, '2,5', undefined],
      [{ ...whole, kind: 'number' }, 'x', 'Enter a number.'],
    ];
    for (const [question, text, expected] of cases) expect(validateEntry(question, typed(text)), text).toBe(expected);
    expect(validateEntry(many, { selectedIds: ['a', 'b'], text: 'c' })).toBe('Choose at most 2.');
    expect(validateEntry(many, { selectedIds: ['a'], text: '' })).toBeUndefined();
  });

  test('to a single choice is an option or free text, never both', () => {
    const picked = toggleOption(one, typed('mine'), 'a');
    expect(picked).toEqual({ selectedIds: ['a'], text: '' });
    expect(setFreeformText(one, picked, 'mine')).toEqual({ selectedIds: [], text: 'mine' });
    expect(setFreeformText(many, { selectedIds: ['a'], text: '' }, 'mine')).toEqual({
      selectedIds: ['a'],
      text: 'mine',
    });
    expect(toggleOption(many, { selectedIds: ['a', 'b'], text: '' }, 'a').selectedIds).toEqual(['b']);
  });

  test('that was skipped is empty until it changes', () => {
    const skipped: QuestionEntry = { ...EMPTY_ENTRY, isSkipped: true };
    expect(validateEntry(one, skipped)).toBeUndefined();
    expect(validateEntry({ ...one, required: true }, skipped)).toBe('An answer is required.');
    expect(toggleOption(one, skipped, 'b')).toEqual({ selectedIds: ['b'], text: '' });
  });

  test('is summarized as text', () => {
    expect(answerSummary(many, entryToAnswer(many, { selectedIds: ['b'], text: 'jam' }, 'submitted'))).toBe(
      'Bread, jam',
    );
    expect(answerSummary(one, { state: 'submitted', value: { kind: 'selected', value: 'gone' } })).toBe('gone');
    expect(answerSummary(one, undefined)).toBe('Not answered');
    expect(answerSummary({ ...typedText, defaultValue: 'main' }, undefined)).toBe('Not answered');
  });
});

test('a submission covers every question', () => {
  const request: ChatInputRequest = { id: 'r', questions: [one, typedText] };
  const answers = buildAnswers(request, ({ id }) => (id === 'one' ? { selectedIds: ['a'], text: '' } : EMPTY_ENTRY));
  expect(answers).toEqual({
    one: { state: 'submitted', value: { kind: 'selected', value: 'a' } },
    typedText: { state: 'skipped' },
  });
});

test('a plan request is recognized by its question', () => {
  const plan: Question = { ...one, id: 'plan', options: [...options, { id: 'revise', label: 'Keep planning' }] };
  expect(isPlanRequest({ id: 'r', message: '# Plan', questions: [plan] })).toBe(true);
  expect(isPlanRequest({ id: 'r', message: 'hello', questions: [one] })).toBe(false);
  expect(isPlanRequest({ id: 'r' })).toBe(false);
});

describe('confirmation options', () => {
  const option = (id: string, kind: 'approve' | 'deny', group: number): ConfirmationOption => ({
    id,
    label: id,
    kind,
    group,
  });
  const offered = [
    option('allow-once', 'approve', 0),
    option('allow-always-1', 'approve', 2),
    option('allow-session', 'approve', 1),
    option('deny', 'deny', 3),
    option('deny-with-feedback', 'deny', 3),
  ];

  test('follow the groups of the host', () => {
    const { approve, deny, denyWithMessage, others } = confirmationChoices({ options: offered });
    expect([approve.id, deny.id, denyWithMessage.id]).toEqual(['allow-once', 'deny', 'deny-with-feedback']);
    expect(others.map(({ id }) => id)).toEqual(['allow-session', 'allow-always-1']);
  });

  test('default to allow and deny', () => {
    const { approve, deny, denyWithMessage, others } = confirmationChoices({});
    expect([approve.label, deny.label, others]).toEqual(['Allow', 'Deny', []]);
    expect(optionDecision(approve)).toEqual({ approved: true });
    expect(optionDecision(denyWithMessage, ' no ')).toEqual({ approved: false, reason: 'denied', reasonMessage: 'no' });
  });

  test('carry the option, the message and the edited input', () => {
    const { approve, deny } = confirmationChoices({ options: offered });
    expect(optionDecision(deny)).toEqual({ approved: false, reason: 'denied', selectedOptionId: 'deny' });
    expect(editedInputDecision(approve, '{}')).toEqual({
      approved: true,
      selectedOptionId: 'allow-once',
      editedToolInput: '{}',
    });
  });

  test('require a JSON object as edited input', () => {
    expect(validateJsonObject('{"a":1}')).toBeUndefined();
    expect(validateJsonObject('[1]')).toBe('The input must be a JSON object.');
    expect(validateJsonObject('{')).toMatch(/^Invalid JSON: /);
  });
});
