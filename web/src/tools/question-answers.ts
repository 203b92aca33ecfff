/** Answers to questions: conversion between form entries and AHP answers, and validation. Pure. */

import type { Answer, AnswerValue, ChatInputRequest, Question } from '../ahp/index.ts';
import { strings } from '../strings.ts';

/** The form state of a question. */
export interface QuestionEntry {
  /** Ids of the selected options. */
  readonly selectedIds: readonly string[];
  /** The typed answer, or free text beside the options. */
  readonly text: string;
  readonly booleanValue?: boolean;
  readonly isSkipped?: boolean;
}

export const EMPTY_ENTRY: QuestionEntry = { selectedIds: [], text: '' };

/** Maximum answer size that hosts accept. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** Converts an answer to a form entry; without an answer, the question's default. */
export function answerToEntry(question: Question, answer: Answer | undefined): QuestionEntry {
  if (!answer) return defaultEntry(question);
  if (answer.state === 'skipped')
    return { ...EMPTY_ENTRY, text: (answer.freeformValues ?? []).join('\n'), isSkipped: true };
  const { value } = answer;
  switch (value.kind) {
    case 'text':
      return { ...EMPTY_ENTRY, text: value.value };
    case 'number':
      return { ...EMPTY_ENTRY, text: `${value.value}` };
    case 'boolean':
      return { ...EMPTY_ENTRY, booleanValue: value.value };
    case 'selected':
      return { selectedIds: value.value ? [value.value] : [], text: (value.freeformValues ?? []).join('\n') };
    case 'selected-many':
      return { selectedIds: value.value, text: (value.freeformValues ?? []).join('\n') };
    default:
      return EMPTY_ENTRY;
  }
}

/** Converts a form entry to an answer; undefined if it is empty. */
export function entryToAnswer(
  question: Question,
  entry: QuestionEntry,
  state: 'draft' | 'submitted',
): Answer | undefined {
  if (entry.isSkipped) return { state: 'skipped' };
  const value = entryValue(question, entry);
  return value && { state, value };
}

/** Validates a form entry; returns an error. */
export function validateEntry(question: Question, entry: QuestionEntry): string | undefined {
  if (entry.isSkipped) return question.required ? strings.questions.answerRequired : undefined;
  const isEmpty = entryValue(question, entry) === undefined && !entry.text.trim();
  if (isEmpty) return question.required ? strings.questions.answerRequired : undefined;
  switch (question.kind) {
    case 'text':
      return validateText(question, entry.text);
    case 'number':
    case 'integer':
      return validateNumber(question, entry.text);
    case 'multi-select':
      return validateSelectionCount(question, entry);
    default:
      return new TextEncoder().encode(entry.text).length > MAX_ANSWER_BYTES ? strings.questions.tooLong : undefined;
  }
}

/** Builds the answers of all questions for submission. */
export function buildAnswers(
  request: ChatInputRequest,
  entryFor: (question: Question) => QuestionEntry,
): Record<string, Answer> {
  const answers = (request.questions ?? []).flatMap((question) => {
    const entry = entryFor(question);
    const answer = entryToAnswer(question, entry, 'submitted');
    return [[question.id, answer ?? { state: 'skipped' }] as const];
  });
  return Object.fromEntries(answers);
}

/** An answer as text, for the summary. */
export function answerSummary(question: Question, answer: Answer | undefined): string {
  const entry = answer ? answerToEntry(question, answer) : EMPTY_ENTRY;
  if (entry.booleanValue !== undefined) return entry.booleanValue ? strings.common.yes : strings.common.no;
  const options = 'options' in question ? question.options : [];
  const labels = entry.selectedIds.map((id) => options.find((option) => option.id === id)?.label ?? id);
  return [...labels, entry.text.trim()].filter((text) => text !== '').join(', ') || strings.questions.notAnswered;
}

/** Toggles an option; a single choice replaces the selection. */
export function toggleOption(question: Question, entry: QuestionEntry, option: string): QuestionEntry {
  const { isSkipped: _before, ...rest } = entry;
  if (question.kind === 'single-select') return { ...rest, selectedIds: [option], text: '' };
  const has = entry.selectedIds.includes(option);
  return {
    ...rest,
    selectedIds: has ? entry.selectedIds.filter((id) => id !== option) : [...entry.selectedIds, option],
  };
}

/** Sets free text; in a single choice it replaces the selection. */
export function setFreeformText(question: Question, entry: QuestionEntry, text: string): QuestionEntry {
  const { isSkipped: _before, ...rest } = entry;
  return { ...rest, text, ...(question.kind === 'single-select' && text.trim() && { selectedIds: [] }) };
}

/** Whether a request asks to approve a plan: one question with a `revise` option. */
export function isPlanRequest({ questions = [], message }: ChatInputRequest): boolean {
  const [question] = questions;
  if (questions.length !== 1 || question?.id !== 'plan' || question.kind !== 'single-select') return false;
  return message !== undefined && question.options.some(({ id }) => id === 'revise');
}

/** Whether a request asks to trust a folder. */
export function isTrustRequest({ questions = [] }: ChatInputRequest): boolean {
  const [question] = questions;
  if (questions.length !== 1 || question?.id !== 'folder' || question.kind !== 'single-select') return false;
  const selectedIds = question.options.map(({ id }) => id);
  return selectedIds.includes('trust') && selectedIds.includes('restrict');
}

function defaultEntry(question: Question): QuestionEntry {
  if (!('defaultValue' in question) || question.defaultValue === undefined) return EMPTY_ENTRY;
  const { defaultValue } = question;
  return typeof defaultValue === 'boolean'
    ? { ...EMPTY_ENTRY, booleanValue: defaultValue }
    : { ...EMPTY_ENTRY, text: `${defaultValue}` };
}

function entryValue(question: Question, { selectedIds, text, booleanValue }: QuestionEntry): AnswerValue | undefined {
  const freeform = text.trim() ? { freeformValues: [text.trim()] } : {};
  switch (question.kind) {
    case 'text':
      return text.trim() ? { kind: 'text', value: text } : undefined;
    case 'number':
    case 'integer':
      return parseNumber(question, text);
    case 'boolean':
      return booleanValue === undefined ? undefined : { kind: 'boolean', value: booleanValue };
    case 'single-select':
      return selectedIds.length > 0 || text.trim()
        ? { kind: 'selected', value: selectedIds[0] ?? '', ...freeform }
        : undefined;
    case 'multi-select':
      return selectedIds.length > 0 || text.trim()
        ? { kind: 'selected-many', value: selectedIds, ...freeform }
        : undefined;
    default:
      return undefined;
  }
}

function parseNumber(question: Question & { kind: 'number' | 'integer' }, text: string): AnswerValue | undefined {
  const value = Number(text.trim().replace(',', '.'));
  if (!text.trim() || !Number.isFinite(value)) return undefined;
  return question.kind === 'integer' && !Number.isInteger(value) ? undefined : { kind: 'number', value };
}

function validateText({ min, max, format }: Question & { kind: 'text' }, text: string): string | undefined {
  const { length } = [...text];
  if (min !== undefined && length < min) return strings.questions.atLeastCharacters(min);
  if (max !== undefined && length > max) return strings.questions.atMostCharacters(max);
  if (new TextEncoder().encode(text).length > MAX_ANSWER_BYTES) return strings.questions.tooLong;
  switch (format) {
    case 'email':
      return /^\S+@\S+\.\S+$/.test(text.trim()) ? undefined : strings.questions.invalidEmail;
    case 'uri':
    case 'url':
      return URL.canParse(text.trim()) ? undefined : strings.questions.invalidUrl;
    case 'date':
      return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))
        ? undefined
        : strings.questions.invalidDate;
    case 'date-time':
      return Number.isNaN(Date.parse(text)) ? strings.questions.invalidDateTime : undefined;
    default:
      return undefined;
  }
}

function validateNumber(question: Question & { kind: 'number' | 'integer' }, text: string): string | undefined {
  const value = parseNumber(question, text);
  if (value?.kind !== 'number')
    return question.kind === 'integer' ? strings.questions.invalidInteger : strings.questions.invalidNumber;
  const { min, max } = question;
  if (min !== undefined && value.value < min) return strings.questions.atLeast(min);
  return max !== undefined && value.value > max ? strings.questions.atMost(max) : undefined;
}

function validateSelectionCount(
  { min, max }: Question & { kind: 'multi-select' },
  { selectedIds, text }: QuestionEntry,
): string | undefined {
  const count = selectedIds.length + (text.trim() ? 1 : 0);
  if (min !== undefined && count < min) return strings.questions.chooseAtLeast(min);
  return max !== undefined && count > max ? strings.questions.chooseAtMost(max) : undefined;
}
