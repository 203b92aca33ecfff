/** Answers on their way: what is typed here, what everybody has noted so far, and when the one becomes the other. */

import { untrack } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import type { Answer, Chat, ChatInputRequest, Question } from '../../ahp/index.ts';
import { setBounded } from '../bounded-map.ts';
import { answerToEntry, entryToAnswer, type QuestionEntry, validateEntry } from '../question-answers.ts';

/** How long somebody pauses before the others see what was typed, in milliseconds. */
export const TYPING_PAUSE_MS = 350;

export class AnswerDrafts {
  /** What was typed here and is not the host's yet, by question. It outlives the card. */
  readonly #local = new SvelteMap<string, QuestionEntry>();
  /** Of these the host has the gist. */
  readonly #saved = new WeakSet<QuestionEntry>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  /** What a question's fields show. */
  entry(request: ChatInputRequest, question: Question): QuestionEntry {
    return this.#local.get(question.id) ?? answerToEntry(question, request.answers?.[question.id]);
  }

  /** Notes what somebody has put in. Without a chat it stays here until it is sent. */
  set(
    question: Question,
    entry: QuestionEntry,
    saveDraft?: (answer: Answer | undefined) => Promise<boolean>,
    pause = 0,
  ): void {
    this.#local.set(question.id, entry);
    clearTimeout(this.#timers.get(question.id));
    // What is not finished is nobody else's business.
    if (!saveDraft || validateEntry(question, entry) !== undefined) return;
    const send = async () => {
      this.#timers.delete(question.id);
      const answer = entryToAnswer(question, entry, 'draft');
      if (!(await saveDraft(answer)) || this.#local.get(question.id) !== entry) return;
      // A space at the end or a `2.0` comes back as something shorter, in the middle of somebody's typing: it stays here.
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

  /** Words that nobody else has. */
  get unsavedText(): string {
    return [...this.#local.values()]
      .filter((entry) => !this.#saved.has(entry))
      .map(({ text }) => text.trim())
      .filter((text) => text !== '')
      .join('\n');
  }

  /** Whether the host has everything. */
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

/** By the id of the request. */
const draftsByRequest = new Map<string, AnswerDrafts>();

export function requestDrafts(request: ChatInputRequest): AnswerDrafts {
  const known = draftsByRequest.get(request.id);
  if (known) return known;
  const drafts = new AnswerDrafts();
  untrack(() => setBounded(draftsByRequest, request.id, drafts, (old) => old.isEmpty));
  return drafts;
}

/** Forgets all answers on their way, and sends none of them. */
export function clearAllDrafts(): void {
  for (const drafts of draftsByRequest.values()) drafts.clear();
  draftsByRequest.clear();
}

/** How somebody's notes reach the others. A note that the host does not take is no disaster: it is sent with the rest. */
export function createDraftSaver(chat: Chat, request: ChatInputRequest, question: Question) {
  return (answer: Answer | undefined): Promise<boolean> =>
    chat.setAnswerDraft(request.id, question.id, answer).then(
      () => true,
      () => false,
    );
}
