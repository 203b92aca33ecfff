/** Questions, what is answered so far, and whether that will do. */

import type { Answer, AnswerValue, ChatInputRequest, Question } from '../ahp/index.ts';

/** What somebody has put into the fields of a question. */
export interface Entry {
  /** Options that are chosen. */
  readonly chosen: readonly string[];
  /** What stands in the field: an answer, or own words beside the options. */
  readonly text: string;
  readonly yes?: boolean;
  readonly isSkipped?: boolean;
}

export const NOTHING: Entry = { chosen: [], text: '' };

/** The longest answer that a host is known to take, in bytes. */
const LONGEST = 64 * 1024;

/** What the fields show for an answer, or for none yet. */
export function entryOf(question: Question, answer: Answer | undefined): Entry {
  if (!answer) return defaultOf(question);
  if (answer.state === 'skipped')
    return { ...NOTHING, text: (answer.freeformValues ?? []).join('\n'), isSkipped: true };
  const { value } = answer;
  switch (value.kind) {
    case 'text':
      return { ...NOTHING, text: value.value };
    case 'number':
      return { ...NOTHING, text: `${value.value}` };
    case 'boolean':
      return { ...NOTHING, yes: value.value };
    case 'selected':
      return { chosen: value.value ? [value.value] : [], text: (value.freeformValues ?? []).join('\n') };
    case 'selected-many':
      return { chosen: value.value, text: (value.freeformValues ?? []).join('\n') };
    default:
      return NOTHING;
  }
}

/** The answer in the fields; nothing while they say nothing that could be sent. */
export function answerOf(question: Question, entry: Entry, state: 'draft' | 'submitted'): Answer | undefined {
  if (entry.isSkipped) return { state: 'skipped' };
  const value = given(question, entry);
  return value && { state, value };
}

/** Why the entry is no answer yet, for a person. */
export function complaint(question: Question, entry: Entry): string | undefined {
  if (entry.isSkipped) return question.required ? 'This has to be answered.' : undefined;
  const isEmpty = given(question, entry) === undefined && !entry.text.trim();
  if (isEmpty) return question.required ? 'This has to be answered.' : undefined;
  switch (question.kind) {
    case 'text':
      return aboutText(question, entry.text);
    case 'number':
    case 'integer':
      return aboutNumber(question, entry.text);
    case 'multi-select':
      return aboutCount(question, entry);
    default:
      return new TextEncoder().encode(entry.text).length > LONGEST ? 'This is too long.' : undefined;
  }
}

/** The answers to all questions, to be sent with the last word. */
export function submission(request: ChatInputRequest, entryFor: (question: Question) => Entry): Record<string, Answer> {
  const answers = (request.questions ?? []).flatMap((question) => {
    const entry = entryFor(question);
    const answer = answerOf(question, entry, 'submitted');
    return [[question.id, answer ?? { state: 'skipped' }] as const];
  });
  return Object.fromEntries(answers);
}

/** An answer in words, for the summary. */
export function wordsOf(question: Question, answer: Answer | undefined): string {
  const entry = answer ? entryOf(question, answer) : NOTHING;
  if (entry.yes !== undefined) return entry.yes ? 'Yes' : 'No';
  const options = 'options' in question ? question.options : [];
  const labels = entry.chosen.map((id) => options.find((option) => option.id === id)?.label ?? id);
  return [...labels, entry.text.trim()].filter((text) => text !== '').join(', ') || 'Not answered';
}

/** Puts an option in or out; where one excludes the others, it takes their place. */
export function chosen(question: Question, entry: Entry, option: string): Entry {
  const { isSkipped: _before, ...rest } = entry;
  if (question.kind === 'single-select') return { ...rest, chosen: [option], text: '' };
  const has = entry.chosen.includes(option);
  return { ...rest, chosen: has ? entry.chosen.filter((id) => id !== option) : [...entry.chosen, option] };
}

/** Own words; where one answer excludes the others, they take the option's place. */
export function worded(question: Question, entry: Entry, text: string): Entry {
  const { isSkipped: _before, ...rest } = entry;
  return { ...rest, text, ...(question.kind === 'single-select' && text.trim() && { chosen: [] }) };
}

/** A plan that wants to be carried out is one question with its own options, and reads as a document. */
export function isPlan({ questions = [], message }: ChatInputRequest): boolean {
  const [question] = questions;
  if (questions.length !== 1 || question?.id !== 'plan' || question.kind !== 'single-select') return false;
  return message !== undefined && question.options.some(({ id }) => id === 'revise');
}

/** Whether a host asks if a folder's own configuration may apply. */
export function isTrust({ questions = [] }: ChatInputRequest): boolean {
  const [question] = questions;
  if (questions.length !== 1 || question?.id !== 'folder' || question.kind !== 'single-select') return false;
  const ids = question.options.map(({ id }) => id);
  return ids.includes('trust') && ids.includes('restrict');
}

function defaultOf(question: Question): Entry {
  if (!('defaultValue' in question) || question.defaultValue === undefined) return NOTHING;
  const { defaultValue } = question;
  return typeof defaultValue === 'boolean'
    ? { ...NOTHING, yes: defaultValue }
    : { ...NOTHING, text: `${defaultValue}` };
}

function given(question: Question, { chosen: ids, text, yes }: Entry): AnswerValue | undefined {
  const freeform = text.trim() ? { freeformValues: [text.trim()] } : {};
  switch (question.kind) {
    case 'text':
      return text.trim() ? { kind: 'text', value: text } : undefined;
    case 'number':
    case 'integer':
      return numberOf(question, text);
    case 'boolean':
      return yes === undefined ? undefined : { kind: 'boolean', value: yes };
    case 'single-select':
      return ids.length > 0 || text.trim() ? { kind: 'selected', value: ids[0] ?? '', ...freeform } : undefined;
    case 'multi-select':
      return ids.length > 0 || text.trim() ? { kind: 'selected-many', value: ids, ...freeform } : undefined;
    default:
      return undefined;
  }
}

function numberOf(question: Question & { kind: 'number' | 'integer' }, text: string): AnswerValue | undefined {
  const value = Number(text.trim().replace(',', '.'));
  if (!text.trim() || !Number.isFinite(value)) return undefined;
  return question.kind === 'integer' && !Number.isInteger(value) ? undefined : { kind: 'number', value };
}

function aboutText({ min, max, format }: Question & { kind: 'text' }, text: string): string | undefined {
  const { length } = [...text];
  if (min !== undefined && length < min) return `At least ${characters(min)}.`;
  if (max !== undefined && length > max) return `At most ${characters(max)}.`;
  if (new TextEncoder().encode(text).length > LONGEST) return 'This is too long.';
  switch (format) {
    case 'email':
      return /^\S+@\S+\.\S+$/.test(text.trim()) ? undefined : 'This is not an e-mail address.';
    case 'uri':
    case 'url':
      return URL.canParse(text.trim()) ? undefined : 'This is not an address that begins with https:// or the like.';
    case 'date':
      return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? undefined : 'This is not a date.';
    case 'date-time':
      return Number.isNaN(Date.parse(text)) ? 'This is not a date and a time.' : undefined;
    default:
      return undefined;
  }
}

function aboutNumber(question: Question & { kind: 'number' | 'integer' }, text: string): string | undefined {
  const value = numberOf(question, text);
  if (value?.kind !== 'number')
    return question.kind === 'integer' ? 'This is not a whole number.' : 'This is not a number.';
  const { min, max } = question;
  if (min !== undefined && value.value < min) return `At least ${min}.`;
  return max !== undefined && value.value > max ? `At most ${max}.` : undefined;
}

function aboutCount(
  { min, max }: Question & { kind: 'multi-select' },
  { chosen: ids, text }: Entry,
): string | undefined {
  const count = ids.length + (text.trim() ? 1 : 0);
  if (min !== undefined && count < min) return `Choose at least ${min}.`;
  return max !== undefined && count > max ? `Choose at most ${max}.` : undefined;
}

function characters(number: number): string {
  return number === 1 ? '1 character' : `${number} characters`;
}
