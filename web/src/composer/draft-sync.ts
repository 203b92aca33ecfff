/** Keeps what stands in the field and the host's draft alike, in both directions and on time. */

import { type Chat, type Message, RejectedError } from '../ahp/index.ts';
import { type AttachmentChip, isEmbedded } from './attachment-chips.ts';
import * as drafts from './draft-reconciliation.ts';
import { EMPTY_CONTENT, isSameContent, type MessageContent, messageContent, toUserMessage } from './message-content.ts';

/** The field, as far as its draft is concerned. */
export interface DraftSurface {
  /** What the host is to keep of it. */
  readonly syncedContent: MessageContent;
  readonly syncedChips: readonly AttachmentChip[];
  /** Nobody else may touch the field: an input method is at work. */
  readonly isImeActive: boolean;
  /** Others have written this. */
  showRemote(content: MessageContent): void;
  /** The host has it. What was sent along is kept by it, under these names. */
  onSaved(content: MessageContent, savedChips: readonly AttachmentChip[], stored: MessageContent): void;
  /** The host does not keep what was sent along. */
  onAttachmentsRejected(): void;
  /** A save is over, however it went. */
  onSaveFinished(): void;
}

type Timer = ReturnType<typeof setTimeout>;

export class DraftSync {
  readonly #chat: Pick<Chat, 'setDraft'>;
  readonly #surface: DraftSurface;
  #draft = drafts.EMPTY_DRAFT;
  /** The draft that was heard last; most of what happens in a chat does not change it. */
  #lastRemote: Message | undefined | null = null;
  #saving: Promise<void> | undefined;
  /** How many messages have left the field: what belongs to an earlier one does not concern the next. */
  #sentCount = 0;
  #isLive = false;
  #closed = false;
  #timers: { save?: Timer; settle?: Timer } = {};

  constructor(chat: Pick<Chat, 'setDraft'>, surface: DraftSurface) {
    this.#chat = chat;
    this.#surface = surface;
  }

  /** The save that is on its way. */
  get saving(): Promise<void> | undefined {
    return this.#saving;
  }

  /** Whether this page knows something that the host may not know. */
  get isUnsaved(): boolean {
    return this.#draft.isUnsaved || this.#saving !== undefined;
  }

  /** Whether something was not even said to the host, or to one that may not have heard it. */
  get isUnsent(): boolean {
    return this.#draft.isUnsaved || (this.#saving !== undefined && !this.#isLive);
  }

  /** Whether the host has a draft, or may have one soon. */
  get hasDraft(): boolean {
    return this.#saving !== undefined || !isSameContent(this.#draft.remote, EMPTY_CONTENT);
  }

  /** The first thing that is heard of a chat: what was typed before stays. */
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

  /** The message has left. Whoever sends it tells the host that there is no draft any more. */
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

  /** Says at once what can be said. */
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

  /** Tells the host, or takes what it has, when nobody types any more. */
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
      // A draft is refused for what it brings: then its words are saved without it. Words alone are not tried again.
      if (isRejected) this.#surface.onAttachmentsRejected();
      const shouldRetry = !isRejected || savedChips.some(isEmbedded);
      const { syncedContent } = this.#surface;
      this.#draft = drafts.onSaveFailed({ ...this.#draft, local: syncedContent }, shouldRetry ? before : syncedContent);
    }
  }
}
