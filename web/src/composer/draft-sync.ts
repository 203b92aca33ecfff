/** Synchronizes the message field with the host's draft in both directions. Owns the save and adopt timers. */

import { type Chat, type Message, RejectedError } from '../ahp/index.ts';
import { type AttachmentChip, isEmbedded } from './attachment-chips.ts';
import * as drafts from './draft-reconciliation.ts';
import { EMPTY_CONTENT, isSameContent, type MessageContent, messageContent, toUserMessage } from './message-content.ts';

/** The message field as draft sync sees it. */
export interface DraftSurface {
  /** The content to save. */
  readonly syncedContent: MessageContent;
  readonly syncedChips: readonly AttachmentChip[];
  /** An IME composition is active, so the field must not change. */
  readonly isImeActive: boolean;
  /** Shows a remote draft. */
  showRemote(content: MessageContent): void;
  /** A save succeeded; `stored` has the references of its attachments. */
  onSaved(content: MessageContent, savedChips: readonly AttachmentChip[], stored: MessageContent): void;
  /** The host rejected the attachments. */
  onAttachmentsRejected(): void;
  /** A save finished, successfully or not. */
  onSaveFinished(): void;
}

type Timer = ReturnType<typeof setTimeout>;

export class DraftSync {
  readonly #chat: Pick<Chat, 'setDraft'>;
  readonly #surface: DraftSurface;
  #draft = drafts.EMPTY_DRAFT;
  /** The last received draft; most chat updates do not change it. */
  #lastRemote: Message | undefined | null = null;
  #saving: Promise<void> | undefined;
  /** Number of sent messages; a save of an earlier message does not affect the next one. */
  #sentCount = 0;
  #isLive = false;
  #closed = false;
  #timers: { save?: Timer; settle?: Timer } = {};

  constructor(chat: Pick<Chat, 'setDraft'>, surface: DraftSurface) {
    this.#chat = chat;
    this.#surface = surface;
  }

  /** The save in progress. */
  get saving(): Promise<void> | undefined {
    return this.#saving;
  }

  /** Whether the field has content that the host may not have. */
  get isUnsaved(): boolean {
    return this.#draft.isUnsaved || this.#saving !== undefined;
  }

  /** Whether content was not sent to the host, or sent without a live connection. */
  get isUnsent(): boolean {
    return this.#draft.isUnsaved || (this.#saving !== undefined && !this.#isLive);
  }

  /** Whether the host has a draft, or a save is in progress. */
  get hasDraft(): boolean {
    return this.#saving !== undefined || !isSameContent(this.#draft.remote, EMPTY_CONTENT);
  }

  /** The first draft of a chat; earlier local edits are retained. */
  start(draft: Message | undefined): void {
    this.#lastRemote = draft;
    this.#draft = drafts.onStored(this.#draft, this.#surface.syncedContent, messageContent(draft));
  }

  onEdited(): void {
    this.#draft = drafts.onTyped(this.#draft, this.#surface.syncedContent, Date.now());
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    this.#schedule();
  }

  /** The message was sent; the caller clears the host's draft. */
  onSent(): void {
    this.#sentCount += 1;
    this.#draft = drafts.onSent(this.#draft);
  }

  onRemoteDraft(draft: Message | undefined, isLive: boolean): void {
    this.#isLive = isLive;
    if (!isLive) return;
    if (draft !== this.#lastRemote) {
      this.#lastRemote = draft;
      this.#adopt(drafts.onRemoteDraft(this.#draft, messageContent(draft), Date.now()));
    }
    this.#schedule();
  }

  /** Saves now, if possible. */
  flush(): void {
    clearTimeout(this.#timers.save);
    delete this.#timers.save;
    if (this.#closed || this.#saving || !this.#isLive || !this.#draft.isUnsaved) return;
    this.#saving = this.#save().finally(() => {
      this.#saving = undefined;
      this.#schedule();
      this.#surface.onSaveFinished();
    });
  }

  close(): void {
    this.flush();
    this.#closed = true;
    clearTimeout(this.#timers.settle);
  }

  #adopt(draft: drafts.DraftState): void {
    const { isImeActive } = this.#surface;
    const hasChanged = !isImeActive && !isSameContent(draft.local, this.#draft.local);
    this.#draft = isImeActive ? { ...draft, local: this.#draft.local } : draft;
    if (hasChanged) this.#surface.showRemote(draft.local);
  }

  /** Schedules a save, or the adoption of a remote draft after typing stops. */
  #schedule(): void {
    if (this.#closed) return;
    if (this.#draft.isUnsaved) this.#timers.save ??= setTimeout(() => this.flush(), drafts.SAVE_DELAY_MS);
    else if (!isSameContent(this.#draft.local, this.#draft.remote)) {
      this.#timers.settle ??= setTimeout(() => {
        delete this.#timers.settle;
        this.#adopt(drafts.adoptRemote(this.#draft, Date.now()));
        this.#schedule();
      }, drafts.TYPING_TIMEOUT_MS);
    }
  }

  async #save(): Promise<void> {
    const { syncedContent: content, syncedChips: savedChips } = this.#surface;
    const [before, message] = [this.#draft.remote, this.#sentCount];
    this.#draft = drafts.onSaving(this.#draft);
    const nothing = content.text === '' && content.attachments.length === 0;
    try {
      const { action } = await this.#chat.setDraft(nothing ? undefined : toUserMessage(content));
      const stored = action.type === 'chat/draftChanged' ? messageContent(action.draft) : content;
      this.#surface.onSaved(content, message === this.#sentCount ? savedChips : [], stored);
      if (message === this.#sentCount) this.#draft = drafts.onStored(this.#draft, this.#surface.syncedContent, stored);
    } catch (error) {
      if (message !== this.#sentCount) return;
      const isRejected = error instanceof RejectedError;
      // A rejected draft is saved again without its attachments; rejected text is not repeated.
      if (isRejected) this.#surface.onAttachmentsRejected();
      const shouldRetry = !isRejected || savedChips.some(isEmbedded);
      const { syncedContent } = this.#surface;
      this.#draft = drafts.onSaveFailed({ ...this.#draft, local: syncedContent }, shouldRetry ? before : syncedContent);
    }
  }
}
