/**
 * What only this tab knows: words that the host has not been told of, and messages that it has not acknowledged. They survive a
 * reload, also while the host is away.
 */

import type { Attachment, ChatState, Uri } from '../ahp/index.ts';
import { isEmptyContent, isSameContent, joinContents, type MessageContent, messageContent } from './message-content.ts';

export interface StoredDraft {
  /** What stands in the field and was not saved. */
  readonly typed?: MessageContent;
  /** What was sent and not acknowledged. */
  readonly sent?: readonly MessageContent[];
}

export type DraftStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** What the names on the shelf begin with. */
export const STORAGE_KEY_PREFIX = 'hostler.unsaved.';

let signOutCount = 0;

/** The user signs out: nothing of theirs is kept from now on. */
export function blockWritesAfterSignOut(): void {
  signOutCount += 1;
}

/** A shelf that takes nothing any more after a sign-out, however late a message comes back. */
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
    // A browser that keeps nothing for pages, or no more than it has: then only the host keeps it.
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

/** The host has it: it need not be kept here. */
export function removeContent(storage: DraftStorage, chat: Uri, content: MessageContent): void {
  const { typed, sent = [] } = readDraft(storage, chat);
  const still = typed && !isSameContent(typed, withoutEmbedded(content)) ? { typed } : {};
  storeDraft(storage, chat, { ...still, sent: sent.filter((each) => !isSameContent(each, withoutEmbedded(content))) });
}

/** What belongs into the field after a reload: what was not saved, and what the host has never got. */
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
    // The host names the contents that it keeps; the words and their number tell enough.
    return (
      isSameContent(sent, content) ||
      (sent.text === content.text && sent.attachments.length >= content.attachments.length)
    );
  });
}

/** Contents are too large for the browser's shelf. */
function withoutEmbedded(content: MessageContent): MessageContent {
  const stay = (attachment: Attachment) => attachment.type !== 'embeddedResource';
  return { ...content, attachments: content.attachments.filter(stay) };
}

function isMessageContent(value: unknown): value is MessageContent {
  const { text, attachments } = (value ?? {}) as Partial<MessageContent>;
  return typeof text === 'string' && Array.isArray(attachments);
}
