/** The message that somebody writes in a chat: its words and files, from the first key until the host has taken it. */

import {
  type Attachment,
  type Chat,
  type Client,
  type Envelope,
  newId,
  RejectedError,
  type View,
} from '../ahp/index.ts';
import type { ChatState } from '../ahp/types/index.ts';
import {
  attachmentsOf,
  blockedBy,
  type Chip,
  chipOf,
  isEmbedded,
  kept,
  meant,
  planned,
  reconciled,
  revived,
} from './chips.ts';
import { type Content, contentOf, EMPTY, isEmpty, same, wordsOf } from './content.ts';
import * as drafts from './draft.ts';
import { read } from './files.ts';
import { History } from './history.ts';
import * as shelf from './keep.ts';
import { Planning } from './planning.svelte.ts';
import type { Way } from './situation.ts';

export class Composing {
  text = $state('');
  chips: readonly Chip[] = $state.raw([]);
  /** Why the last message came back. */
  refusal: string | undefined = $state.raw();
  /** Waits for files that are on their way to the host. */
  isWaiting = $state(false);
  /** An input method is at work: nobody else touches the field. */
  composing = false;
  readonly history = new History();
  readonly #chat: Chat;
  readonly #planning: Planning;
  readonly #tell: (reason: string) => void;
  #draft = drafts.BLANK;
  /** What was sent and not acknowledged. */
  #sent: readonly Content[] = [];
  /** What this tab had before it was loaded anew; until the chat is there. */
  #before: shelf.Kept | undefined;
  #lastDraft: ChatState['draft'] | null = null;
  #saving: Promise<void> | undefined;
  /** How many messages have left the field: what belongs to an earlier one does not concern the next. */
  #messages = 0;
  #isLive = false;
  #closed = false;
  #timers: { save?: number; settle?: number } = {};

  /** `tell` is for what comes back when nobody looks at this chat any more. */
  constructor(chat: Chat, client: Client, tell: (reason: string) => void) {
    this.#chat = chat;
    this.#planning = new Planning(client, chat.uri);
    this.#tell = tell;
    this.#before = shelf.kept(sessionStorage, chat.uri);
  }

  /** What stands in the way of sending. */
  get blocked(): string | undefined {
    return blockedBy(this.chips, this.#planning.reason);
  }

  get isReading(): boolean {
    return this.chips.some(({ attachment, problem }) => !attachment && problem === undefined);
  }

  get isEmpty(): boolean {
    return this.text.trim() === '' && this.chips.length === 0;
  }

  type(text: string): void {
    this.text = text;
    this.chips = meant(this.chips, text);
    this.refusal = undefined;
    this.#edited();
  }

  /** Adds what somebody chose to the text; with words that stand for it, it goes when they go. */
  attach(attachment: Attachment, mention?: string): void {
    const [known] = reconciled(this.chips, [attachment], newId);
    if (known && this.chips.includes(known)) return;
    this.#attached([...this.chips, chipOf(attachment, newId(), mention)]);
  }

  async attachFiles(files: readonly File[]): Promise<void> {
    for (const file of files) {
      const { chip, done } = read(file, this.chips, newId());
      this.chips = [...this.chips, chip];
      const ready = await done;
      // It may have been removed meanwhile, or sent away with the session's tab.
      if (!this.#closed) this.#attached(this.chips.map((each) => (each.id === ready.id ? ready : each)));
    }
  }

  remove(id: string): void {
    const gone = this.chips.find((chip) => chip.id === id);
    if (gone?.preview) URL.revokeObjectURL(gone.preview);
    this.#attached(this.chips.filter((chip) => chip.id !== id));
  }

  /** Puts words back into the field, above what stands there. */
  putBack(content: Content): void {
    const { text } = shelf.joined({ ...content, attachments: [] }, { text: this.text, attachments: [] });
    this.text = text;
    const chips = content.attachments.map((attachment) => chipOf(attachment, newId()));
    this.#attached([...chips, ...this.chips]);
  }

  /** The chat as it is now. */
  heard({ state, status }: View<ChatState>): void {
    this.#isLive = status === 'live';
    if (!state || !this.#isLive) return;
    if (this.#before) this.#restore(this.#before, state);
    if (state.draft !== this.#lastDraft) {
      this.#lastDraft = state.draft;
      this.#show(drafts.heard(this.#draft, contentOf(state.draft), Date.now()));
    }
    this.#schedule();
  }

  /** Sends what stands in the field, and empties it; what the host does not take is put back with the reason. */
  async deliver(way: Way): Promise<void> {
    if (this.isEmpty || this.isReading || this.isWaiting || this.blocked !== undefined) return;
    if (this.#saving && this.chips.some((chip) => isEmbedded(chip) && !chip.stays)) {
      // The files are on their way already; they need not go twice.
      this.isWaiting = true;
      await this.#saving;
      this.isWaiting = false;
    }
    const { chips } = this;
    const content = { text: this.text, attachments: attachmentsOf(chips) };
    const wish = this.#chat[way](wordsOf(content));
    if (this.#saving || !same(this.#draft.known, EMPTY)) void this.#chat.draft(undefined).catch(() => undefined);
    this.#messages += 1;
    this.#draft = drafts.sent(this.#draft);
    this.#sent = [...this.#sent, content];
    this.text = '';
    this.chips = [];
    this.refusal = undefined;
    this.#keep();
    await this.#acknowledged(wish, content, chips);
  }

  /** Nobody looks any more. The host is told what was not told. */
  close(): void {
    this.#save();
    this.#closed = true;
    this.#planning.close();
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    for (const { preview } of this.chips) if (preview) URL.revokeObjectURL(preview);
  }

  /** The page is about to go: what can still be said is said. */
  flush(): void {
    this.#save();
  }

  async #acknowledged(wish: Promise<Envelope>, content: Content, chips: readonly Chip[]): Promise<void> {
    let failure: string | undefined;
    try {
      await wish;
      for (const { preview } of chips) if (preview) URL.revokeObjectURL(preview);
    } catch (error) {
      failure = error instanceof Error ? error.message : String(error);
    }
    this.#sent = this.#sent.filter((each) => each !== content);
    if (failure === undefined) this.#kept(content);
    else this.#cameBack(content, chips, failure);
  }

  #cameBack(content: Content, chips: readonly Chip[], reason: string): void {
    if (this.#closed) {
      const { typed = EMPTY, sent = [] } = shelf.kept(sessionStorage, this.#chat.uri);
      shelf.keep(sessionStorage, this.#chat.uri, { typed: shelf.joined(content, typed), sent });
      this.#tell(reason);
      return;
    }
    const lost = reason.includes('attachment_artifact_missing');
    this.text = shelf.joined({ ...content, attachments: [] }, { text: this.text, attachments: [] }).text;
    this.#attached([...(lost ? revived(chips) : chips), ...this.chips]);
    this.refusal = reason;
  }

  #restore(before: shelf.Kept, state: ChatState): void {
    this.#before = undefined;
    this.#lastDraft = state.draft;
    const content = shelf.restored(before, state);
    const draft = contentOf(state.draft);
    this.#draft = { ...this.#draft, known: draft };
    if (!content) {
      if (!isEmpty(this.#shared)) this.history.leave(draft.text);
      this.#show(drafts.typed(this.#draft, isEmpty(this.#shared) ? draft : this.#shared, this.#draft.typedAt));
      this.#keep();
      return;
    }
    if (draft.text !== content.text) this.history.leave(draft.text);
    this.putBack(content);
  }

  /** What stands in the field, as far as the host keeps it. */
  get #shared(): Content {
    return { text: this.text, attachments: attachmentsOf(this.chips.filter(({ stays }) => !stays)) };
  }

  #attached(chips: readonly Chip[]): void {
    this.chips = chips;
    this.#edited();
    this.#plan();
  }

  #edited(): void {
    this.#draft = drafts.typed(this.#draft, this.#shared, Date.now());
    this.#keep();
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    this.#schedule();
  }

  /** Shows what others wrote, if that is what the draft says now. */
  #show(draft: drafts.Draft): void {
    const { shown } = draft;
    this.#draft = this.composing ? { ...draft, shown: this.#draft.shown } : draft;
    if (this.composing) return;
    if (same(shown, this.#shared)) return;
    this.history.leave(this.text);
    this.text = shown.text;
    this.chips = reconciled(this.chips, shown.attachments, newId);
    this.#plan();
  }

  /** Tells the host, or takes what it has, when nobody types any more. */
  #schedule(): void {
    if (this.#closed) return;
    if (this.#draft.unsaved) this.#timers.save ??= window.setTimeout(() => this.#save(), drafts.SETTLES);
    else if (!same(this.#draft.shown, this.#draft.known)) {
      this.#timers.settle ??= window.setTimeout(() => {
        delete this.#timers.settle;
        this.#show(drafts.settled(this.#draft, Date.now()));
        this.#schedule();
      }, drafts.QUIET);
    }
  }

  #save(): void {
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    if (this.#closed || this.#saving || !this.#isLive || !this.#draft.unsaved) return;
    this.#saving = this.#saved().finally(() => {
      this.#saving = undefined;
      this.#schedule();
      this.#plan();
    });
  }

  async #saved(): Promise<void> {
    const [told, content, before, message] = [this.chips, this.#shared, this.#draft.known, this.#messages];
    const shared = told.filter(({ stays, attachment }) => !stays && attachment);
    this.#draft = drafts.saved(this.#draft);
    try {
      const nothing = content.text === '' && content.attachments.length === 0;
      const { action } = await this.#chat.draft(nothing ? undefined : wordsOf(content));
      this.#kept(content);
      if (action.type !== 'chat/draftChanged' || message !== this.#messages) return;
      this.chips = kept(this.chips, shared, action.draft?.attachments ?? []);
      this.#draft = drafts.renamed(this.#draft, this.#shared, contentOf(action.draft));
    } catch (error) {
      if (message !== this.#messages) return;
      const refused = error instanceof RejectedError;
      // A draft is refused for what it brings. The files stay here, and the plan says what is wrong with them.
      if (refused) this.chips = this.chips.map((chip) => (isEmbedded(chip) ? { ...chip, stays: true } : chip));
      const again = !refused || shared.some(isEmbedded);
      this.#draft = drafts.unsaved({ ...this.#draft, shown: this.#shared }, again ? before : this.#shared);
    }
  }

  #plan(): void {
    if (this.#closed) return;
    this.#planning.ask(this.chips, (ids, plan) => {
      this.chips = planned(this.chips, ids, plan);
    });
  }

  /** Keeps here what the host does not have yet. */
  #keep(): void {
    if (this.#closed) return;
    const { typed: above = EMPTY, sent = [] } = this.#before ?? {};
    const typed = shelf.joined(above, this.#draft.unsaved || this.#saving ? this.#shared : EMPTY);
    shelf.keep(sessionStorage, this.#chat.uri, { ...(!isEmpty(typed) && { typed }), sent: [...sent, ...this.#sent] });
  }

  #kept(content: Content): void {
    shelf.release(sessionStorage, this.#chat.uri, content);
  }
}
