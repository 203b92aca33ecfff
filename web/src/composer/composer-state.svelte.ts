/**
 * State of the composer: text and attachments of a message until the host accepts it. Owns draft sync, storage and
 * planning. Does not know the DOM.
 */

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

/** The parts of a chat that the composer uses. */
type ComposerChat = Pick<Chat, 'uri' | 'view' | 'setDraft' | 'removePendingMessage' | SendMode>;

export class ComposerState {
  text = $state('');
  chips: readonly Chip[] = $state.raw([]);
  /** Why the last message was rejected. */
  sendError: string | undefined = $state.raw();
  /** Files are uploading before the message is sent. */
  isUploading = $state(false);
  /** An IME composition is active. */
  isImeActive = false;
  readonly history = new MessageHistory();
  readonly #chat: ComposerChat;
  readonly #storage: shelf.DraftStorage;
  readonly #reportReturned: (reason: string) => void;
  readonly #planner: AttachmentPlanner;
  readonly #draftSync: DraftSync;
  /** Messages sent without a confirmation. */
  #unacknowledged: readonly MessageContent[] = [];
  /** The draft stored before a reload, until the chat is live. */
  #stored: shelf.StoredDraft | undefined;
  #closed = false;

  /** `reportReturned` is called for messages that are rejected after the composer closed. */
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

  /** Why the message cannot be sent. */
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

  /** Adds an attachment; one with a mention is removed together with it. */
  attach(attachment: Attachment, mention?: string): void {
    const [known] = chips.reconcileChips(this.chips, [attachment], newId);
    if (known && this.chips.includes(known)) return;
    this.#setChips([...this.chips, chips.createChip(attachment, newId(), mention)]);
  }

  async attachFiles(files: readonly File[]): Promise<void> {
    for (const file of files) {
      // A closed composer attaches no further files and creates no previews.
      if (this.#closed) return;
      const { chip, done } = readFile(file, this.chips, newId());
      this.chips = [...this.chips, chip];
      const ready = await done;
      // The chip may have been removed meanwhile.
      if (!this.#closed) this.#setChips(this.chips.map((each) => (each.id === ready.id ? ready : each)));
    }
  }

  remove(id: string): void {
    revokePreviews(this.chips.filter((chip) => chip.id === id));
    this.#setChips(this.chips.filter((chip) => chip.id !== id));
  }

  /** Restores content above the current text. */
  restore(content: MessageContent): void {
    const restored = content.attachments.map((attachment) => chips.createChip(attachment, newId()));
    this.#prepend(content.text, restored);
  }

  /** Applies the current view of the chat. */
  update({ state, status }: ChannelView<ChatState>): void {
    const isLive = status === 'live' && state !== undefined;
    if (isLive && this.#stored) this.#restoreStored(this.#stored, state);
    this.#draftSync.onRemoteDraft(state?.draft, isLive);
  }

  /** Sends the message and empties the field; a rejected message is restored with the reason. */
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
    // The draft stores the files until the message references them.
    if (hasDraft) void this.#chat.setDraft(undefined).catch(() => undefined);
    const failure = await sending.then(() => undefined, errorMessage);
    this.#unacknowledged = this.#unacknowledged.filter((each) => each !== content);
    shelf.removeContent(this.#storage, this.#chat.uri, content);
    if (failure === undefined) revokePreviews(sentChips);
    else this.#onRejected(all, sentChips, failure);
  }

  /** Saves the draft now, since the page may close. */
  flush(): void {
    this.#draftSync.flush();
  }

  /** Saves the draft and returns whether text remains that only this tab has. */
  hasUnsavedText(): boolean {
    this.flush();
    const { typed, sent = [] } = this.#stored ?? {};
    const isWaiting = typed !== undefined || sent.length > 0 || this.#unacknowledged.length > 0;
    // Local-only attachments exist nowhere else.
    const isHere = this.isReadingFiles || this.chips.some(({ isLocalOnly }) => isLocalOnly);
    return isWaiting || isHere || this.#draftSync.isUnsent;
  }

  /** The chat no longer exists, so its stored draft is removed. */
  discardStored(): void {
    shelf.storeDraft(this.#storage, this.#chat.uri, {});
  }

  /** The composer unmounts. */
  close(): void {
    this.#draftSync.close();
    this.#closed = true;
    this.#planner.close();
    revokePreviews(this.chips);
  }

  /** The interface for draft sync. */
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

  /** Waits for a save in progress, so that its files are not uploaded twice. */
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
    // Merged steering messages bring their own attachments.
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

  /** Shows a remote draft. */
  #showRemote(content: MessageContent): void {
    if (isSameContent(content, this.#syncedContent)) return;
    this.history.addDiscarded(this.text);
    this.text = content.text;
    // Local-only chips are unknown to other clients, so a remote draft cannot remove them.
    const own = this.chips.filter((chip) => !this.#syncedChips.includes(chip));
    const remoteChips = chips.reconcileChips(this.#syncedChips, content.attachments, newId);
    revokePreviews(this.#syncedChips.filter((chip) => !remoteChips.includes(chip)));
    this.chips = [...remoteChips, ...own];
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

  /** Stores what the host does not have yet. */
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

/** Revokes the preview URLs of removed chips. */
function revokePreviews(gone: readonly Chip[]): void {
  for (const { preview } of gone) if (preview) URL.revokeObjectURL(preview);
}
