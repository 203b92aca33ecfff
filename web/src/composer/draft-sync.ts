/** Keeps what stands in the field and the host's draft alike, in both directions and on time. */

import { type Chat, type Message, RejectedError } from '../ahp/index.ts';
import { type Chip, isEmbedded } from './attachment-chips.ts';
import * as drafts from './draft-reconciliation.ts';
import { type Content, contentOf, EMPTY, same, wordsOf } from './message-content.ts';

/** The field, as far as its draft is concerned. */
export interface Sheet {
  /** What the host is to keep of it. */
  readonly shared: Content;
  readonly sharedChips: readonly Chip[];
  /** Nobody else may touch the field: an input method is at work. */
  readonly isLocked: boolean;
  /** Others have written this. */
  show(content: Content): void;
  /** The host has it. What was sent along is kept by it, under these names. */
  saved(content: Content, told: readonly Chip[], named: Content): void;
  /** The host does not keep what was sent along. */
  refused(): void;
  /** A save is over, however it went. */
  settled(): void;
}

type Timer = ReturnType<typeof setTimeout>;

export class Saving {
  readonly #chat: Pick<Chat, 'setDraft'>;
  readonly #sheet: Sheet;
  #draft = drafts.BLANK;
  /** The draft that was heard last; most of what happens in a chat does not change it. */
  #heard: Message | undefined | null = null;
  #pending: Promise<void> | undefined;
  /** How many messages have left the field: what belongs to an earlier one does not concern the next. */
  #messages = 0;
  #isLive = false;
  #closed = false;
  #timers: { save?: Timer; settle?: Timer } = {};

  constructor(chat: Pick<Chat, 'setDraft'>, sheet: Sheet) {
    this.#chat = chat;
    this.#sheet = sheet;
  }

  /** The save that is on its way. */
  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  /** Whether this page knows something that the host may not know. */
  get isUnsaved(): boolean {
    return this.#draft.unsaved || this.#pending !== undefined;
  }

  /** Whether something was not even said to the host, or to one that may not have heard it. */
  get isUntold(): boolean {
    return this.#draft.unsaved || (this.#pending !== undefined && !this.#isLive);
  }

  /** Whether the host has a draft, or may have one soon. */
  get hasDraft(): boolean {
    return this.#pending !== undefined || !same(this.#draft.known, EMPTY);
  }

  /** The first thing that is heard of a chat: what was typed before stays. */
  begin(draft: Message | undefined): void {
    this.#heard = draft;
    this.#draft = drafts.renamed(this.#draft, this.#sheet.shared, contentOf(draft));
  }

  edited(): void {
    this.#draft = drafts.typed(this.#draft, this.#sheet.shared, Date.now());
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    this.#schedule();
  }

  /** The message has left. Whoever sends it tells the host that there is no draft any more. */
  emptied(): void {
    this.#messages += 1;
    this.#draft = drafts.sent(this.#draft);
  }

  heard(draft: Message | undefined, isLive: boolean): void {
    this.#isLive = isLive;
    if (!isLive) return;
    if (draft !== this.#heard) {
      this.#heard = draft;
      this.#take(drafts.heard(this.#draft, contentOf(draft), Date.now()));
    }
    this.#schedule();
  }

  /** Says at once what can be said. */
  flush(): void {
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    if (this.#closed || this.#pending || !this.#isLive || !this.#draft.unsaved) return;
    this.#pending = this.#save().finally(() => {
      this.#pending = undefined;
      this.#schedule();
      this.#sheet.settled();
    });
  }

  close(): void {
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timers.settle);
  }

  #take(draft: drafts.Draft): void {
    const { isLocked } = this.#sheet;
    const isNews = !isLocked && !same(draft.shown, this.#draft.shown);
    this.#draft = isLocked ? { ...draft, shown: this.#draft.shown } : draft;
    if (isNews) this.#sheet.show(draft.shown);
  }

  /** Tells the host, or takes what it has, when nobody types any more. */
  #schedule(): void {
    if (this.#closed) return;
    if (this.#draft.unsaved) this.#timers.save ??= setTimeout(() => this.flush(), drafts.SETTLES);
    else if (!same(this.#draft.shown, this.#draft.known)) {
      this.#timers.settle ??= setTimeout(() => {
        delete this.#timers.settle;
        this.#take(drafts.settled(this.#draft, Date.now()));
        this.#schedule();
      }, drafts.QUIET);
    }
  }

  async #save(): Promise<void> {
    const { shared: content, sharedChips: told } = this.#sheet;
    const [before, message] = [this.#draft.known, this.#messages];
    this.#draft = drafts.saved(this.#draft);
    const nothing = content.text === '' && content.attachments.length === 0;
    try {
      const { action } = await this.#chat.setDraft(nothing ? undefined : wordsOf(content));
      const named = action.type === 'chat/draftChanged' ? contentOf(action.draft) : content;
      this.#sheet.saved(content, message === this.#messages ? told : [], named);
      if (message === this.#messages) this.#draft = drafts.renamed(this.#draft, this.#sheet.shared, named);
    } catch (error) {
      if (message !== this.#messages) return;
      const refused = error instanceof RejectedError;
      // A draft is refused for what it brings: then its words are saved without it. Words alone are not tried again.
      if (refused) this.#sheet.refused();
      const again = !refused || told.some(isEmbedded);
      const { shared } = this.#sheet;
      this.#draft = drafts.unsaved({ ...this.#draft, shown: shared }, again ? before : shared);
    }
  }
}
