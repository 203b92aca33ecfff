/**
 * Stores drafts of this tab in sessionStorage: unsaved text and unconfirmed messages survive a reload, even while
 * disconnected.
 */

import type { Attachment, ChatState, Uri } from '../ahp/index.ts';
import { isEmptyContent, isSameContent, joinContents, type MessageContent, messageContent } from './message-content.ts';

export interface StoredDraft {
  /** Unsaved content of the field. */
  readonly typed?: MessageContent;
  /** Messages sent without a confirmation. */
  readonly sent?: readonly MessageContent[];
}

export type DraftStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** Prefix of the storage keys; the chat's URI follows. */
export const STORAGE_KEY_PREFIX = 'hostler.unsaved.';

let signOutCount = 0;

/** Blocks further writes after the user signed out. */
export function blockWritesAfterSignOut(): void {
  signOutCount += 1;
}

/** Storage that ignores writes after a sign-out, even for messages that are rejected late. */
export function writableUntilSignOut(storage: DraftStorage): DraftStorage {
  const signOutsAtStart = signOutCount;
  return {
    getItem: (name) => storage.getItem(name),
    setItem: (name, value) => {
      if (signOutCount === signOutsAtStart) storage.setItem(name, value);
    },
    removeItem: (name) => storage.removeItem(name),
  };
}

export function storeDraft(storage: DraftStorage, chat: Uri, { typed, sent = [] }: StoredDraft): void {
  try {
    if (!typed && sent.length === 0) storage.removeItem(STORAGE_KEY_PREFIX + chat);
    else
      storage.setItem(
        STORAGE_KEY_PREFIX + chat,
        JSON.stringify({ ...(typed && { typed: withoutEmbedded(typed) }), sent: sent.map(withoutEmbedded) }),
      );
  } catch {
    // Storage is blocked or full; only the host stores the draft.
  }
}

export function readDraft(storage: DraftStorage, chat: Uri): StoredDraft {
  try {
    const found: unknown = JSON.parse(storage.getItem(STORAGE_KEY_PREFIX + chat) ?? '{}');
    const { typed, sent } = (found ?? {}) as { typed?: unknown; sent?: unknown };
    return {
      ...(isMessageContent(typed) && { typed }),
      ...(Array.isArray(sent) && { sent: sent.filter(isMessageContent) }),
    };
  } catch {
    return {};
  }
}

/** Removes content that the host has confirmed. */
export function removeContent(storage: DraftStorage, chat: Uri, content: MessageContent): void {
  const { typed, sent = [] } = readDraft(storage, chat);
  const still = typed && !isSameContent(typed, withoutEmbedded(content)) ? { typed } : {};
  storeDraft(storage, chat, { ...still, sent: sent.filter((each) => !isSameContent(each, withoutEmbedded(content))) });
}

/** What to restore after a reload: unsaved text and messages that never arrived. */
export function contentToRestore({ typed, sent = [] }: StoredDraft, state: ChatState): MessageContent | undefined {
  const lost = sent.filter((content) => !hasArrived(content, state));
  const all = [...lost, ...(typed ? [typed] : [])].filter((content) => !isEmptyContent(content));
  return all.length === 0 ? undefined : all.reduce(joinContents);
}

function hasArrived(content: MessageContent, state: ChatState): boolean {
  const waiting = [...(state.queuedMessages ?? []), ...(state.steeringMessage ? [state.steeringMessage] : [])];
  const turns = [...state.turns.slice(-10), ...(state.activeTurn ? [state.activeTurn] : [])];
  return [...turns, ...waiting].some(({ message }) => {
    const sent = messageContent(message);
    // The host replaces embedded attachments by references, so text and attachment count identify the message.
    return (
      isSameContent(sent, content) ||
      (sent.text === content.text && sent.attachments.length >= content.attachments.length)
    );
  });
}

/** Embedded contents are too large for sessionStorage. */
function withoutEmbedded(content: MessageContent): MessageContent {
  const stay = (attachment: Attachment) => attachment.type !== 'embeddedResource';
  return { ...content, attachments: content.attachments.filter(stay) };
}

function isMessageContent(value: unknown): value is MessageContent {
  const { text, attachments } = (value ?? {}) as Partial<MessageContent>;
  return typeof text === 'string' && Array.isArray(attachments);
}
