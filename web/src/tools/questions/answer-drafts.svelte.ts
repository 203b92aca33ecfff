/** Answers on their way: what is typed here, what everybody has noted so far, and when the one becomes the other. */

import { untrack } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import type { Answer, Chat, ChatInputRequest, Question } from '../../ahp/index.ts';
import { remember } from '../bounded-map.ts';
import { answerOf, complaint, type Entry, entryOf } from '../question-answers.ts';

/** How long somebody pauses before the others see what was typed, in milliseconds. */
export const PAUSE = 350;

export class Drafts {
  /** What was typed here and is not the host's yet, by question. It outlives the card. */
  readonly #own = new SvelteMap<string, Entry>();
  /** Of these the host has the gist. */
  readonly #told = new WeakSet<Entry>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  /** What a question's fields show. */
  entry(request: ChatInputRequest, question: Question): Entry {
    return this.#own.get(question.id) ?? entryOf(question, request.answers?.[question.id]);
  }

  /** Notes what somebody has put in. Without a chat it stays here until it is sent. */
  set(question: Question, entry: Entry, tell?: (answer: Answer | undefined) => Promise<boolean>, pause = 0): void {
    this.#own.set(question.id, entry);
    clearTimeout(this.#timers.get(question.id));
    // What is not finished is nobody else's business.
    if (!tell || complaint(question, entry) !== undefined) return;
    const send = async () => {
      this.#timers.delete(question.id);
      const answer = answerOf(question, entry, 'draft');
      if (!(await tell(answer)) || this.#own.get(question.id) !== entry) return;
      // A space at the end or a `2.0` comes back as something shorter, in the middle of somebody's typing: it stays here.
      if (isSame(entry, entryOf(question, answer))) this.#own.delete(question.id);
      else this.#told.add(entry);
    };
    if (pause === 0) void send();
    else
      this.#timers.set(
        question.id,
        setTimeout(() => void send(), pause),
      );
  }

  /** Words that nobody else has. */
  get words(): string {
    return [...this.#own.values()]
      .filter((entry) => !this.#told.has(entry))
      .map(({ text }) => text.trim())
      .filter((text) => text !== '')
      .join('\n');
  }

  /** Whether the host has everything. */
  get isEmpty(): boolean {
    return this.#own.size === 0;
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#own.clear();
  }
}

function isSame(one: Entry, other: Entry): boolean {
  return one.text === other.text && one.yes === other.yes && one.chosen.join() === other.chosen.join();
}

/** By the id of the request. */
const all = new Map<string, Drafts>();

export function draftsOf(request: ChatInputRequest): Drafts {
  const known = all.get(request.id);
  if (known) return known;
  const drafts = new Drafts();
  untrack(() => remember(all, request.id, drafts, (old) => old.isEmpty));
  return drafts;
}

/** Forgets all answers on their way, and sends none of them. */
export function forgetDrafts(): void {
  for (const drafts of all.values()) drafts.clear();
  all.clear();
}

/** How somebody's notes reach the others. A note that the host does not take is no disaster: it is sent with the rest. */
export function teller(chat: Chat, request: ChatInputRequest, question: Question) {
  return (answer: Answer | undefined): Promise<boolean> =>
    chat.setAnswerDraft(request.id, question.id, answer).then(
      () => true,
      () => false,
    );
}
