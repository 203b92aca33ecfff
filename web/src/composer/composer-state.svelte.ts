/** The message that somebody writes in a chat: its words and files, from the first key until the host has taken it. */

import { type Attachment, type ChannelView, type Chat, type ChatState, type Client, newId } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import * as chips from './attachment-chips.ts';
import { AttachmentPlanner } from './attachment-planner.svelte.ts';
import type { SendMode } from './composer-status.ts';
import * as shelf from './draft-storage.ts';
import { type DraftSurface, DraftSync } from './draft-sync.ts';
import { errorMessage } from './error-message.ts';
import { readFile } from './file-reading.ts';
import {
  EMPTY_CONTENT,
  isEmptyContent,
  isSameContent,
  joinContents,
  type MessageContent,
  messageContent,
  toUserMessage,
} from './message-content.ts';
import { MessageHistory } from './message-history.ts';
import { mergeWithSteering } from './steering.ts';

type Chip = chips.AttachmentChip;

/** What of a chat a message needs. */
type ComposerChat = Pick<Chat, 'uri' | 'view' | 'setDraft' | 'removePendingMessage' | SendMode>;

export class ComposerState {
  text = $state('');
  chips: readonly Chip[] = $state.raw([]);
  /** Why the last message came back. */
  sendError: string | undefined = $state.raw();
  /** Waits for files that are on their way to the host. */
  isUploading = $state(false);
  /** An input method is at work. */
  isImeActive = false;
  readonly history = new MessageHistory();
  readonly #chat: ComposerChat;
  readonly #storage: shelf.DraftStorage;
  readonly #reportReturned: (reason: string) => void;
  readonly #planner: AttachmentPlanner;
  readonly #draftSync: DraftSync;
  /** What was sent and not acknowledged. */
  #unacknowledged: readonly MessageContent[] = [];
  /** What this tab had before it was loaded anew; until the chat is there. */
  #stored: shelf.StoredDraft | undefined;
  #closed = false;

  /** `tell` is for what comes back when nobody looks at this chat any more. */
  constructor(
    chat: ComposerChat,
    client: Client,
    reportReturned: (reason: string) => void,
    storage: shelf.DraftStorage = sessionStorage,
  ) {
    this.#chat = chat;
    this.#storage = shelf.writableUntilSignOut(storage);
    this.#reportReturned = reportReturned;
    this.#planner = new AttachmentPlanner(client, chat.uri);
    this.#draftSync = new DraftSync(chat, this.#draftSurface());
    this.#stored = shelf.readDraft(storage, chat.uri);
  }

  /** What stands in the way of sending. */
  get sendBlocker(): string | undefined {
    return chips.sendBlocker(this.chips, this.#planner.reason);
  }

  get isReadingFiles(): boolean {
    return this.chips.some(({ attachment, problem }) => !attachment && problem === undefined);
  }

  get isEmpty(): boolean {
    return this.text.trim() === '' && this.chips.length === 0;
  }

  setText(text: string): void {
    this.text = text;
    this.sendError = undefined;
    const mentioned = chips.removeUnmentioned(this.chips, text);
    if (mentioned === this.chips) this.#onEdited();
    else this.#setChips(mentioned);
  }

  /** Adds what somebody chose; with words that stand for it, it goes when they go. */
  attach(attachment: Attachment, mention?: string): void {
    const [known] = chips.reconcileChips(this.chips, [attachment], newId);
    if (known && this.chips.includes(known)) return;
    this.#setChips([...this.chips, chips.createChip(attachment, newId(), mention)]);
  }

  async attachFiles(files: readonly File[]): Promise<void> {
    for (const file of files) {
      // Nobody looks any more: what is not read yet is not attached, and its picture is not made.
      if (this.#closed) return;
      const { chip, done } = readFile(file, this.chips, newId());
      this.chips = [...this.chips, chip];
      const ready = await done;
      // It may have been removed meanwhile.
      if (!this.#closed) this.#setChips(this.chips.map((each) => (each.id === ready.id ? ready : each)));
    }
  }

  remove(id: string): void {
    revokePreviews(this.chips.filter((chip) => chip.id === id));
    this.#setChips(this.chips.filter((chip) => chip.id !== id));
  }

  /** Puts words back into the field, above what stands there. */
  restore(content: MessageContent): void {
    const restored = content.attachments.map((attachment) => chips.createChip(attachment, newId()));
    this.#prepend(content.text, restored);
  }

  /** The chat as it is now. */
  update({ state, status }: ChannelView<ChatState>): void {
    const isLive = status === 'live' && state !== undefined;
    if (isLive && this.#stored) this.#restoreStored(this.#stored, state);
    this.#draftSync.onRemoteDraft(state?.draft, isLive);
  }

  /** Sends what stands in the field, and empties it; what the host does not take is put back with the reason. */
  async send(mode: SendMode): Promise<void> {
    if (this.isEmpty || this.isReadingFiles || this.isUploading || this.sendBlocker !== undefined) return;
    if (this.chips.some((chip) => chips.isEmbedded(chip) && !chip.isLocalOnly)) await this.#waitForUpload();
    if (this.isEmpty || this.sendBlocker !== undefined) return;
    const { hasDraft } = this.#draftSync;
    const sentChips = this.chips;
    const content = { text: this.text, attachments: chips.chipAttachments(sentChips) };
    this.#draftSync.onSent();
    this.#unacknowledged = [...this.#unacknowledged, content];
    this.text = '';
    this.chips = [];
    this.sendError = undefined;
    this.#store();
    const all = mode === 'steer' ? await mergeWithSteering(this.#chat, content) : content;
    const sending = this.#chat[mode](toUserMessage(all));
    // The draft holds the files until the message does.
    if (hasDraft) void this.#chat.setDraft(undefined).catch(() => undefined);
    const failure = await sending.then(() => undefined, errorMessage);
    this.#unacknowledged = this.#unacknowledged.filter((each) => each !== content);
    shelf.removeContent(this.#storage, this.#chat.uri, content);
    if (failure === undefined) revokePreviews(sentChips);
    else this.#onRejected(all, sentChips, failure);
  }

  /** Says at once what can be said: the page may be about to go. */
  flush(): void {
    this.#draftSync.flush();
  }

  /** Says what can be said; whether something is left that goes with the tab. */
  hasUnsavedText(): boolean {
    this.flush();
    const { typed, sent = [] } = this.#stored ?? {};
    const isWaiting = typed !== undefined || sent.length > 0 || this.#unacknowledged.length > 0;
    // Contents that the host does not keep are nowhere else.
    const isHere = this.isReadingFiles || this.chips.some(({ isLocalOnly }) => isLocalOnly);
    return isWaiting || isHere || this.#draftSync.isUnsent;
  }

  /** There is no chat any more that what is kept could come back to. */
  discardStored(): void {
    shelf.storeDraft(this.#storage, this.#chat.uri, {});
  }

  /** Nobody looks any more. */
  close(): void {
    this.#draftSync.close();
    this.#closed = true;
    this.#planner.close();
    revokePreviews(this.chips);
  }

  /** The field, as its draft sees it. */
  #draftSurface(): DraftSurface {
    const state = this;
    return {
      get syncedContent() {
        return state.#syncedContent;
      },
      get syncedChips() {
        return state.#syncedChips;
      },
      get isImeActive() {
        return state.isImeActive;
      },
      showRemote: (content) => this.#showRemote(content),
      onSaved: (content, savedChips, stored) => {
        this.chips = chips.replaceWithStored(this.chips, savedChips, stored.attachments);
        shelf.removeContent(this.#storage, this.#chat.uri, content);
      },
      onAttachmentsRejected: () => {
        this.chips = this.chips.map((chip) => (chips.isEmbedded(chip) ? { ...chip, isLocalOnly: true } : chip));
      },
      onSaveFinished: () => this.#requestPlan(),
    };
  }

  get #syncedChips(): readonly Chip[] {
    return this.chips.filter(({ isLocalOnly, attachment }) => !isLocalOnly && attachment);
  }

  get #syncedContent(): MessageContent {
    return { text: this.text, attachments: chips.chipAttachments(this.#syncedChips) };
  }

  /** Files that are on their way with the draft need not go twice. */
  async #waitForUpload(): Promise<void> {
    this.#draftSync.flush();
    this.isUploading = true;
    await this.#draftSync.saving;
    this.isUploading = false;
  }

  #prepend(text: string, restored: readonly Chip[]): void {
    this.text = joinContents({ text, attachments: [] }, { text: this.text, attachments: [] }).text;
    this.#setChips([...restored, ...this.chips]);
  }

  #onRejected(content: MessageContent, sentChips: readonly Chip[], reason: string): void {
    if (this.#closed) {
      const { typed = EMPTY_CONTENT, sent = [] } = shelf.readDraft(this.#storage, this.#chat.uri);
      shelf.storeDraft(this.#storage, this.#chat.uri, { typed: joinContents(content, typed), sent });
      revokePreviews(sentChips);
      this.#reportReturned(reason);
      return;
    }
    const known = reason.includes('attachment_artifact_missing') ? chips.restoreOriginals(sentChips) : sentChips;
    // What was told along with it had been attached before.
    const others = content.attachments.slice(0, content.attachments.length - chips.chipAttachments(sentChips).length);
    this.#prepend(content.text, [...others.map((other) => chips.createChip(other, newId())), ...known]);
    this.sendError = strings.composer.notSent(reason);
  }

  #restoreStored(before: shelf.StoredDraft, state: ChatState): void {
    this.#stored = undefined;
    const draft = messageContent(state.draft);
    const content = shelf.contentToRestore(before, state);
    if (content) this.restore(content);
    else if (isEmptyContent(this.#syncedContent)) this.#showRemote(draft);
    if (draft.text !== this.text) this.history.addDiscarded(draft.text);
    this.#draftSync.start(state.draft);
    this.#store();
  }

  /** Shows what others wrote. */
  #showRemote(content: MessageContent): void {
    if (isSameContent(content, this.#syncedContent)) return;
    this.history.addDiscarded(this.text);
    this.text = content.text;
    // What only this page has cannot have been taken out elsewhere.
    const own = this.chips.filter((chip) => !this.#syncedChips.includes(chip));
    const shown = chips.reconcileChips(this.#syncedChips, content.attachments, newId);
    revokePreviews(this.#syncedChips.filter((chip) => !shown.includes(chip)));
    this.chips = [...shown, ...own];
    this.#requestPlan();
  }

  #setChips(now: readonly Chip[]): void {
    this.chips = now;
    this.#onEdited();
    this.#requestPlan();
  }

  #onEdited(): void {
    this.#draftSync.onEdited();
    this.#store();
  }

  /** Keeps here what the host does not have yet. */
  #store(): void {
    const { typed: above = EMPTY_CONTENT, sent = [] } = this.#stored ?? {};
    const typed = joinContents(above, this.#draftSync.isUnsaved ? this.#syncedContent : EMPTY_CONTENT);
    shelf.storeDraft(this.#storage, this.#chat.uri, {
      ...(!isEmptyContent(typed) && { typed }),
      sent: [...sent, ...this.#unacknowledged],
    });
  }

  #requestPlan(): void {
    if (this.#closed) return;
    this.#planner.requestPlan(this.chips, (ids, plan) => {
      this.chips = chips.applyPlan(this.chips, ids, plan);
    });
  }
}

/** Their pictures are not shown any more. */
function revokePreviews(gone: readonly Chip[]): void {
  for (const { preview } of gone) if (preview) URL.revokeObjectURL(preview);
}
