/** Answer drafts: local entries, and when they are saved for other clients. */

import { untrack } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import type { Answer, Chat, ChatInputRequest, Question } from '../../ahp/index.ts';
import { setBounded } from '../bounded-map.ts';
import { answerToEntry, entryToAnswer, type QuestionEntry, validateEntry } from '../question-answers.ts';

/** Pause in typing before a draft is saved. */
export const TYPING_PAUSE_MS = 350;

export class AnswerDrafts {
  /** Local entries that the host does not have, by question id. They outlive the card. */
  readonly #local = new SvelteMap<string, QuestionEntry>();
  /** Entries that are saved, but differ textually from the host's copy. */
  readonly #saved = new WeakSet<QuestionEntry>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  /** The form entry of a question. */
  entry(request: ChatInputRequest, question: Question): QuestionEntry {
    return this.#local.get(question.id) ?? answerToEntry(question, request.answers?.[question.id]);
  }

  /** Sets an entry. Without `saveDraft` it stays local until submission. */
  set(
    question: Question,
    entry: QuestionEntry,
    saveDraft?: (answer: Answer | undefined) => Promise<boolean>,
    pause = 0,
  ): void {
    this.#local.set(question.id, entry);
    clearTimeout(this.#timers.get(question.id));
    // Invalid entries are not saved.
    if (!saveDraft || validateEntry(question, entry) !== undefined) return;
    const send = async () => {
      this.#timers.delete(question.id);
      const answer = entryToAnswer(question, entry, 'draft');
      if (!(await saveDraft(answer)) || this.#local.get(question.id) !== entry) return;
      // The host normalizes answers, such as a trailing space or `2.0`; replacing the entry would disturb typing.
      if (isSameEntry(entry, answerToEntry(question, answer))) this.#local.delete(question.id);
      else this.#saved.add(entry);
    };
    if (pause === 0) void send();
    else
      this.#timers.set(
        question.id,
        setTimeout(() => void send(), pause),
      );
  }

  /** Text that was not saved. */
  get unsavedText(): string {
    return [...this.#local.values()]
      .filter((entry) => !this.#saved.has(entry))
      .map(({ text }) => text.trim())
      .filter((text) => text !== '')
      .join('\n');
  }

  /** Whether everything is saved. */
  get isEmpty(): boolean {
    return this.#local.size === 0;
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#local.clear();
  }
}

function isSameEntry(one: QuestionEntry, other: QuestionEntry): boolean {
  return (
    one.text === other.text &&
    one.booleanValue === other.booleanValue &&
    one.selectedIds.join() === other.selectedIds.join()
  );
}

/** Drafts by request id. */
const draftsByRequest = new Map<string, AnswerDrafts>();

export function requestDrafts(request: ChatInputRequest): AnswerDrafts {
  const known = draftsByRequest.get(request.id);
  if (known) return known;
  const drafts = new AnswerDrafts();
  untrack(() => setBounded(draftsByRequest, request.id, drafts, (old) => old.isEmpty));
  return drafts;
}

/** Clears all drafts without saving them. */
export function clearAllDrafts(): void {
  for (const drafts of draftsByRequest.values()) drafts.clear();
  draftsByRequest.clear();
}

/** Creates the function that saves a draft. A rejected draft is not an error, since the submission includes it. */
export function createDraftSaver(chat: Chat, request: ChatInputRequest, question: Question) {
  return (answer: Answer | undefined): Promise<boolean> =>
    chat.setAnswerDraft(request.id, question.id, answer).then(
      () => true,
      () => false,
    );
}
