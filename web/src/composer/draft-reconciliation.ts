/**
 * Who is right about what stands in the field: whoever types here, or the host, which speaks for the other clients. Pure; the
 * time is given.
 */

import { type Content, EMPTY, same } from './message-content.ts';

export interface Draft {
  /** What stands in the field. */
  readonly shown: Content;
  /** What the host has, as far as it was heard or told. */
  readonly known: Content;
  /** When somebody typed here last. */
  readonly typedAt: number;
  /** Whether something was typed that the host was not told. */
  readonly unsaved: boolean;
}

/** Milliseconds without a key after which the host is told. */
export const SETTLES = 400;

/** Milliseconds without a key after which nobody is typing here any more, and others may change the field. */
export const QUIET = 1_500;

export const BLANK: Draft = { shown: EMPTY, known: EMPTY, typedAt: Number.NEGATIVE_INFINITY, unsaved: false };

export function typed(draft: Draft, shown: Content, now: number): Draft {
  return { ...draft, shown, typedAt: now, unsaved: !same(shown, draft.known) };
}

/** The host was told what stands in the field. */
export function saved(draft: Draft): Draft {
  return { ...draft, known: draft.shown, unsaved: false };
}

/** The host did not take it, or nobody knows whether it did. */
export function unsaved(draft: Draft, known: Content): Draft {
  return { ...draft, known, unsaved: !same(draft.shown, known) };
}

/** The same things have got other names: contents that were sent along are kept by the host from now on. */
export function renamed(draft: Draft, shown: Content, known: Content): Draft {
  return { ...draft, shown, known, unsaved: !same(shown, known) };
}

/** The field was emptied because its message is on its way. */
export function sent(draft: Draft): Draft {
  return { ...BLANK, known: EMPTY, typedAt: draft.typedAt };
}

/** The host's draft as it is now. The echo of one's own is no news. */
export function heard(draft: Draft, known: Content, now: number): Draft {
  return same(known, draft.known) ? draft : settled({ ...draft, known }, now);
}

/** Takes what others wrote, once nobody types here. What was typed here and not told wins: it is told next. */
export function settled(draft: Draft, now: number): Draft {
  if (draft.unsaved || isTyping(draft, now) || same(draft.shown, draft.known)) return draft;
  return { ...draft, shown: draft.known };
}

export function isTyping(draft: Draft, now: number): boolean {
  return now - draft.typedAt < QUIET;
}
