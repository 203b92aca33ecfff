import { describe, expect, test } from 'vitest';
import type { ChatInputRequest, ConfirmationOption, Question } from '../src/ahp/index.ts';
import { choicesOf, complaintAbout, editedVerdict, verdictOf } from '../src/tools/confirmation-options.ts';
import {
  answerOf,
  chosen,
  complaint,
  type Entry,
  entryOf,
  isPlan,
  NOTHING,
  submission,
  worded,
  wordsOf,
} from '../src/tools/question-answers.ts';

const options = [
  { id: 'a', label: 'Apples' },
  { id: 'b', label: 'Bread' },
];
const one: Question = { kind: 'single-select', id: 'one', message: '?', options, allowFreeformInput: true };
const many: Question = { kind: 'multi-select', id: 'many', message: '?', options, min: 1, max: 2 };
const words: Question = { kind: 'text', id: 'words', message: '?' };
const whole: Question = { kind: 'integer', id: 'whole', message: '?', min: 1, max: 9 };
const typed = (text: string): Entry => ({ ...NOTHING, text });

describe('an answer', () => {
  test('survives the way to the host and back', () => {
    const cases: [Question, Entry][] = [
      [one, { chosen: ['a'], text: '' }],
      [one, { chosen: [], text: 'neither' }],
      [many, { chosen: ['b', 'a'], text: 'and more' }],
      [words, typed('hello')],
      [whole, typed('7')],
      [
        { kind: 'boolean', id: 'yes', message: '?' },
        { ...NOTHING, yes: false },
      ],
      [words, { ...NOTHING, isSkipped: true }],
    ];
    for (const [question, entry] of cases)
      expect(entryOf(question, answerOf(question, entry, 'draft')), question.id).toEqual(entry);
  });

  test('that says nothing is none', () => {
    for (const question of [one, many, words, whole]) {
      expect(answerOf(question, NOTHING, 'draft')).toBeUndefined();
      expect(complaint(question, NOTHING)).toBeUndefined();
      expect(complaint({ ...question, required: true }, NOTHING)).toBe('This has to be answered.');
    }
  });

  test('begins with what the question proposes', () => {
    expect(entryOf({ ...words, defaultValue: 'main' }, undefined).text).toBe('main');
    expect(entryOf({ kind: 'boolean', id: 'x', message: '?', defaultValue: true }, undefined).yes).toBe(true);
    expect(entryOf({ ...whole, defaultValue: 0 }, undefined).text).toBe('0');
  });

  test('is measured', () => {
    const cases: [Question, string, string | undefined][] = [
      [{ ...words, min: 3 }, 'ab', 'At least 3 characters.'],
      [{ ...words, max: 1 }, 'ab', 'At most 1 character.'],
      [{ ...words, max: 1 }, '🐎', undefined],
      [{ ...words, format: 'email' }, 'ada', 'This is not an e-mail address.'],
      [{ ...words, format: 'email' }, 'ada@example.com', undefined],
      [{ ...words, format: 'uri' }, 'example', 'This is not an address that begins with https:// or the like.'],
      [{ ...words, format: 'date' }, '2026-13-01', 'This is not a date.'],
      [{ ...words, format: 'date-time' }, '2026-01-01T10:00', undefined],
      [{ ...words, format: 'brand-new' }, 'anything', undefined],
      [whole, '2.5', 'This is not a whole number.'],
      [whole, 'two', 'This is not a whole number.'],
      [whole, '0', 'At least 1.'],
      [whole, '10', 'At most 9.'],
      [whole, '9', undefined],
      [{ ...whole, kind: 'number' }, '2,5', undefined],
      [{ ...whole, kind: 'number' }, 'x', 'This is not a number.'],
    ];
    for (const [question, text, expected] of cases) expect(complaint(question, typed(text)), text).toBe(expected);
    expect(complaint(many, { chosen: ['a', 'b'], text: 'c' })).toBe('Choose at most 2.');
    expect(complaint(many, { chosen: ['a'], text: '' })).toBeUndefined();
  });

  test('to a question with one answer is an option or own words, never both', () => {
    const picked = chosen(one, typed('mine'), 'a');
    expect(picked).toEqual({ chosen: ['a'], text: '' });
    expect(worded(one, picked, 'mine')).toEqual({ chosen: [], text: 'mine' });
    expect(worded(many, { chosen: ['a'], text: '' }, 'mine')).toEqual({ chosen: ['a'], text: 'mine' });
    expect(chosen(many, { chosen: ['a', 'b'], text: '' }, 'a').chosen).toEqual(['b']);
  });

  test('that was skipped is none until somebody says something', () => {
    const skipped: Entry = { ...NOTHING, isSkipped: true };
    expect(complaint(one, skipped)).toBeUndefined();
    expect(complaint({ ...one, required: true }, skipped)).toBe('This has to be answered.');
    expect(chosen(one, skipped, 'b')).toEqual({ chosen: ['b'], text: '' });
  });

  test('reads as words', () => {
    expect(wordsOf(many, answerOf(many, { chosen: ['b'], text: 'jam' }, 'submitted'))).toBe('Bread, jam');
    expect(wordsOf(one, { state: 'submitted', value: { kind: 'selected', value: 'gone' } })).toBe('gone');
    expect(wordsOf(one, undefined)).toBe('Not answered');
    expect(wordsOf({ ...words, defaultValue: 'main' }, undefined)).toBe('Not answered');
  });
});

test('what is submitted has a word about every question', () => {
  const request: ChatInputRequest = { id: 'r', questions: [one, words] };
  const answers = submission(request, ({ id }) => (id === 'one' ? { chosen: ['a'], text: '' } : NOTHING));
  expect(answers).toEqual({
    one: { state: 'submitted', value: { kind: 'selected', value: 'a' } },
    words: { state: 'skipped' },
  });
});

test('a plan is known by its question', () => {
  const plan: Question = { ...one, id: 'plan', options: [...options, { id: 'revise', label: 'Keep planning' }] };
  expect(isPlan({ id: 'r', message: '# Plan', questions: [plan] })).toBe(true);
  expect(isPlan({ id: 'r', message: 'hello', questions: [one] })).toBe(false);
  expect(isPlan({ id: 'r' })).toBe(false);
});

describe('what can be answered to a call', () => {
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
    option('deny-tell', 'deny', 3),
  ];

  test('is what the host offers, in its groups', () => {
    const { approve, deny, tell, others } = choicesOf({ options: offered });
    expect([approve.id, deny.id, tell.id]).toEqual(['allow-once', 'deny', 'deny-tell']);
    expect(others.map(({ id }) => id)).toEqual(['allow-session', 'allow-always-1']);
  });

  test('is yes and no where the host offers nothing', () => {
    const { approve, deny, tell, others } = choicesOf({});
    expect([approve.label, deny.label, others]).toEqual(['Allow', 'Deny', []]);
    expect(verdictOf(approve)).toEqual({ approved: true });
    expect(verdictOf(tell, ' no ')).toEqual({ approved: false, reason: 'denied', reasonMessage: 'no' });
  });

  test('names the option, the words and the changed input', () => {
    const { approve, deny } = choicesOf({ options: offered });
    expect(verdictOf(deny)).toEqual({ approved: false, reason: 'denied', selectedOptionId: 'deny' });
    expect(editedVerdict(approve, '{}')).toEqual({
      approved: true,
      selectedOptionId: 'allow-once',
      editedToolInput: '{}',
    });
  });

  test('has to be a JSON object where the input is changed', () => {
    expect(complaintAbout('{"a":1}')).toBeUndefined();
    expect(complaintAbout('[1]')).toBe('The input has to be a JSON object.');
    expect(complaintAbout('{')).toMatch(/^This is not JSON: /);
  });
});
