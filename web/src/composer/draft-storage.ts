/**
 * What only this tab knows: words that the host has not been told of, and messages that it has not acknowledged. They survive a
 * reload, also while the host is away.
 */

import type { Attachment, ChatState, Uri } from '../ahp/index.ts';
import { type Content, contentOf, isEmpty, joined, same } from './message-content.ts';

export interface Kept {
  /** What stands in the field and was not saved. */
  readonly typed?: Content;
  /** What was sent and not acknowledged. */
  readonly sent?: readonly Content[];
}

export type Shelf = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** What the names on the shelf begin with. */
export const PREFIX = 'hostler.unsaved.';

let signOuts = 0;

/** The user signs out: nothing of theirs is kept from now on. */
export function closeShelves(): void {
  signOuts += 1;
}

/** A shelf that takes nothing any more after a sign-out, however late a message comes back. */
export function untilSignOut(shelf: Shelf): Shelf {
  const opened = signOuts;
  return {
    getItem: (name) => shelf.getItem(name),
    setItem: (name, value) => {
      if (signOuts === opened) shelf.setItem(name, value);
    },
    removeItem: (name) => shelf.removeItem(name),
  };
}

export function keep(shelf: Shelf, chat: Uri, { typed, sent = [] }: Kept): void {
  try {
    if (!typed && sent.length === 0) shelf.removeItem(PREFIX + chat);
    else shelf.setItem(PREFIX + chat, JSON.stringify({ ...(typed && { typed: light(typed) }), sent: sent.map(light) }));
  } catch {
    // A browser that keeps nothing for pages, or no more than it has: then only the host keeps it.
  }
}

export function kept(shelf: Shelf, chat: Uri): Kept {
  try {
    const found: unknown = JSON.parse(shelf.getItem(PREFIX + chat) ?? '{}');
    const { typed, sent } = (found ?? {}) as { typed?: unknown; sent?: unknown };
    return {
      ...(isContent(typed) && { typed }),
      ...(Array.isArray(sent) && { sent: sent.filter(isContent) }),
    };
  } catch {
    return {};
  }
}

/** The host has it: it need not be kept here. */
export function release(shelf: Shelf, chat: Uri, content: Content): void {
  const { typed, sent = [] } = kept(shelf, chat);
  const still = typed && !same(typed, light(content)) ? { typed } : {};
  keep(shelf, chat, { ...still, sent: sent.filter((each) => !same(each, light(content))) });
}

/** What belongs into the field after a reload: what was not saved, and what the host has never got. */
export function restored({ typed, sent = [] }: Kept, state: ChatState): Content | undefined {
  const lost = sent.filter((content) => !arrived(content, state));
  const all = [...lost, ...(typed ? [typed] : [])].filter((content) => !isEmpty(content));
  return all.length === 0 ? undefined : all.reduce(joined);
}

function arrived(content: Content, state: ChatState): boolean {
  const waiting = [...(state.queuedMessages ?? []), ...(state.steeringMessage ? [state.steeringMessage] : [])];
  const turns = [...state.turns.slice(-10), ...(state.activeTurn ? [state.activeTurn] : [])];
  return [...turns, ...waiting].some(({ message }) => {
    const said = contentOf(message);
    // The host names the contents that it keeps; the words and their number tell enough.
    return same(said, content) || (said.text === content.text && said.attachments.length >= content.attachments.length);
  });
}

/** Contents are too large for the browser's shelf. */
function light(content: Content): Content {
  const stay = (attachment: Attachment) => attachment.type !== 'embeddedResource';
  return { ...content, attachments: content.attachments.filter(stay) };
}

function isContent(value: unknown): value is Content {
  const { text, attachments } = (value ?? {}) as Partial<Content>;
  return typeof text === 'string' && Array.isArray(attachments);
}
