/** The message that somebody writes in a chat: its words and files, from the first key until the host has taken it. */

import { type Attachment, type Chat, type ChatState, type Client, newId, type View } from '../ahp/index.ts';
import * as chips from './attachment-chips.ts';
import { Planning } from './attachment-planner.svelte.ts';
import type { Way } from './composer-status.ts';
import * as shelf from './draft-storage.ts';
import { Saving, type Sheet } from './draft-sync.ts';
import { reasonOf } from './error-message.ts';
import { read } from './file-reading.ts';
import { type Content, contentOf, EMPTY, isEmpty, joined, same, wordsOf } from './message-content.ts';
import { History } from './message-history.ts';
import { withWaiting } from './steering.ts';

type Chip = chips.Chip;

/** What of a chat a message needs. */
type Told = Pick<Chat, 'uri' | 'view' | 'setDraft' | 'removePendingMessage' | Way>;

export class Composing {
  text = $state('');
  chips: readonly Chip[] = $state.raw([]);
  /** Why the last message came back. */
  refusal: string | undefined = $state.raw();
  /** Waits for files that are on their way to the host. */
  isWaiting = $state(false);
  /** An input method is at work. */
  isLocked = false;
  readonly history = new History();
  readonly #chat: Told;
  readonly #shelf: shelf.Shelf;
  readonly #tell: (reason: string) => void;
  readonly #planning: Planning;
  readonly #saving: Saving;
  /** What was sent and not acknowledged. */
  #sent: readonly Content[] = [];
  /** What this tab had before it was loaded anew; until the chat is there. */
  #before: shelf.Kept | undefined;
  #closed = false;

  /** `tell` is for what comes back when nobody looks at this chat any more. */
  constructor(chat: Told, client: Client, tell: (reason: string) => void, kept: shelf.Shelf = sessionStorage) {
    this.#chat = chat;
    this.#shelf = shelf.untilSignOut(kept);
    this.#tell = tell;
    this.#planning = new Planning(client, chat.uri);
    this.#saving = new Saving(chat, this.#sheet());
    this.#before = shelf.kept(kept, chat.uri);
  }

  /** What stands in the way of sending. */
  get blocked(): string | undefined {
    return chips.blockedBy(this.chips, this.#planning.reason);
  }

  get isReading(): boolean {
    return this.chips.some(({ attachment, problem }) => !attachment && problem === undefined);
  }

  get isEmpty(): boolean {
    return this.text.trim() === '' && this.chips.length === 0;
  }

  type(text: string): void {
    this.text = text;
    this.refusal = undefined;
    const meant = chips.meant(this.chips, text);
    if (meant === this.chips) this.#edited();
    else this.#attached(meant);
  }

  /** Adds what somebody chose; with words that stand for it, it goes when they go. */
  attach(attachment: Attachment, mention?: string): void {
    const [known] = chips.reconciled(this.chips, [attachment], newId);
    if (known && this.chips.includes(known)) return;
    this.#attached([...this.chips, chips.chipOf(attachment, newId(), mention)]);
  }

  async attachFiles(files: readonly File[]): Promise<void> {
    for (const file of files) {
      // Nobody looks any more: what is not read yet is not attached, and its picture is not made.
      if (this.#closed) return;
      const { chip, done } = read(file, this.chips, newId());
      this.chips = [...this.chips, chip];
      const ready = await done;
      // It may have been removed meanwhile.
      if (!this.#closed) this.#attached(this.chips.map((each) => (each.id === ready.id ? ready : each)));
    }
  }

  remove(id: string): void {
    forget(this.chips.filter((chip) => chip.id === id));
    this.#attached(this.chips.filter((chip) => chip.id !== id));
  }

  /** Puts words back into the field, above what stands there. */
  putBack(content: Content): void {
    const back = content.attachments.map((attachment) => chips.chipOf(attachment, newId()));
    this.#putBack(content.text, back);
  }

  /** The chat as it is now. */
  heard({ state, status }: View<ChatState>): void {
    const isLive = status === 'live' && state !== undefined;
    if (isLive && this.#before) this.#restore(this.#before, state);
    this.#saving.heard(state?.draft, isLive);
  }

  /** Sends what stands in the field, and empties it; what the host does not take is put back with the reason. */
  async deliver(way: Way): Promise<void> {
    if (this.isEmpty || this.isReading || this.isWaiting || this.blocked !== undefined) return;
    if (this.chips.some((chip) => chips.isEmbedded(chip) && !chip.stays)) await this.#arrived();
    if (this.isEmpty || this.blocked !== undefined) return;
    const { hasDraft } = this.#saving;
    const left = this.chips;
    const content = { text: this.text, attachments: chips.attachmentsOf(left) };
    this.#saving.emptied();
    this.#sent = [...this.#sent, content];
    this.text = '';
    this.chips = [];
    this.refusal = undefined;
    this.#keep();
    const all = way === 'steer' ? await withWaiting(this.#chat, content) : content;
    const wish = this.#chat[way](wordsOf(all));
    // The draft holds the files until the message does.
    if (hasDraft) void this.#chat.setDraft(undefined).catch(() => undefined);
    const failure = await wish.then(() => undefined, reasonOf);
    this.#sent = this.#sent.filter((each) => each !== content);
    shelf.release(this.#shelf, this.#chat.uri, content);
    if (failure === undefined) forget(left);
    else this.#cameBack(all, left, failure);
  }

  /** Says at once what can be said: the page may be about to go. */
  flush(): void {
    this.#saving.flush();
  }

  /** Says what can be said; whether something is left that goes with the tab. */
  holdsBack(): boolean {
    this.flush();
    const { typed, sent = [] } = this.#before ?? {};
    const isWaiting = typed !== undefined || sent.length > 0 || this.#sent.length > 0;
    // Contents that the host does not keep are nowhere else.
    const isHere = this.isReading || this.chips.some(({ stays }) => stays);
    return isWaiting || isHere || this.#saving.isUntold;
  }

  /** There is no chat any more that what is kept could come back to. */
  abandon(): void {
    shelf.keep(this.#shelf, this.#chat.uri, {});
  }

  /** Nobody looks any more. */
  close(): void {
    this.#saving.close();
    this.#closed = true;
    this.#planning.close();
    forget(this.chips);
  }

  /** The field, as its draft sees it. */
  #sheet(): Sheet {
    const composing = this;
    return {
      get shared() {
        return composing.#shared;
      },
      get sharedChips() {
        return composing.#sharedChips;
      },
      get isLocked() {
        return composing.isLocked;
      },
      show: (content) => this.#show(content),
      saved: (content, told, named) => {
        this.chips = chips.kept(this.chips, told, named.attachments);
        shelf.release(this.#shelf, this.#chat.uri, content);
      },
      refused: () => {
        this.chips = this.chips.map((chip) => (chips.isEmbedded(chip) ? { ...chip, stays: true } : chip));
      },
      settled: () => this.#plan(),
    };
  }

  get #sharedChips(): readonly Chip[] {
    return this.chips.filter(({ stays, attachment }) => !stays && attachment);
  }

  get #shared(): Content {
    return { text: this.text, attachments: chips.attachmentsOf(this.#sharedChips) };
  }

  /** Files that are on their way with the draft need not go twice. */
  async #arrived(): Promise<void> {
    this.#saving.flush();
    this.isWaiting = true;
    await this.#saving.pending;
    this.isWaiting = false;
  }

  #putBack(text: string, back: readonly Chip[]): void {
    this.text = joined({ text, attachments: [] }, { text: this.text, attachments: [] }).text;
    this.#attached([...back, ...this.chips]);
  }

  #cameBack(content: Content, left: readonly Chip[], reason: string): void {
    if (this.#closed) {
      const { typed = EMPTY, sent = [] } = shelf.kept(this.#shelf, this.#chat.uri);
      shelf.keep(this.#shelf, this.#chat.uri, { typed: joined(content, typed), sent });
      forget(left);
      this.#tell(reason);
      return;
    }
    const known = reason.includes('attachment_artifact_missing') ? chips.revived(left) : left;
    // What was told along with it had been attached before.
    const others = content.attachments.slice(0, content.attachments.length - chips.attachmentsOf(left).length);
    this.#putBack(content.text, [...others.map((other) => chips.chipOf(other, newId())), ...known]);
    this.refusal = `Not sent: ${reason}`;
  }

  #restore(before: shelf.Kept, state: ChatState): void {
    this.#before = undefined;
    const draft = contentOf(state.draft);
    const content = shelf.restored(before, state);
    if (content) this.putBack(content);
    else if (isEmpty(this.#shared)) this.#show(draft);
    if (draft.text !== this.text) this.history.leave(draft.text);
    this.#saving.begin(state.draft);
    this.#keep();
  }

  /** Shows what others wrote. */
  #show(content: Content): void {
    if (same(content, this.#shared)) return;
    this.history.leave(this.text);
    this.text = content.text;
    // What only this page has cannot have been taken out elsewhere.
    const own = this.chips.filter((chip) => !this.#sharedChips.includes(chip));
    const shown = chips.reconciled(this.#sharedChips, content.attachments, newId);
    forget(this.#sharedChips.filter((chip) => !shown.includes(chip)));
    this.chips = [...shown, ...own];
    this.#plan();
  }

  #attached(now: readonly Chip[]): void {
    this.chips = now;
    this.#edited();
    this.#plan();
  }

  #edited(): void {
    this.#saving.edited();
    this.#keep();
  }

  /** Keeps here what the host does not have yet. */
  #keep(): void {
    const { typed: above = EMPTY, sent = [] } = this.#before ?? {};
    const typed = joined(above, this.#saving.isUnsaved ? this.#shared : EMPTY);
    shelf.keep(this.#shelf, this.#chat.uri, { ...(!isEmpty(typed) && { typed }), sent: [...sent, ...this.#sent] });
  }

  #plan(): void {
    if (this.#closed) return;
    this.#planning.ask(this.chips, (ids, plan) => {
      this.chips = chips.planned(this.chips, ids, plan);
    });
  }
}

/** Their pictures are not shown any more. */
function forget(gone: readonly Chip[]): void {
  for (const { preview } of gone) if (preview) URL.revokeObjectURL(preview);
}
