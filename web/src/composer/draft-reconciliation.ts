/**
 * Who is right about what stands in the field: whoever types here, or the host, which speaks for the other clients. Pure; the
 * time is given.
 */

import { EMPTY_CONTENT, isSameContent, type MessageContent } from './message-content.ts';

export interface DraftState {
  /** What stands in the field. */
  readonly local: MessageContent;
  /** What the host has, as far as it was heard or told. */
  readonly remote: MessageContent;
  /** When somebody typed here last. */
  readonly typedAt: number;
  /** Whether something was typed that the host was not told. */
  readonly isUnsaved: boolean;
}

/** Milliseconds without a key after which the host is told. */
export const SAVE_DELAY_MS = 400;

/** Milliseconds without a key after which nobody is typing here any more, and others may change the field. */
export const TYPING_TIMEOUT_MS = 1_500;

export const EMPTY_DRAFT: DraftState = {
  local: EMPTY_CONTENT,
  remote: EMPTY_CONTENT,
  typedAt: Number.NEGATIVE_INFINITY,
  isUnsaved: false,
};

export function onTyped(draft: DraftState, local: MessageContent, now: number): DraftState {
  return { ...draft, local, typedAt: now, isUnsaved: !isSameContent(local, draft.remote) };
}

/** The host was told what stands in the field. */
export function onSaving(draft: DraftState): DraftState {
  return { ...draft, remote: draft.local, isUnsaved: false };
}

/** The host did not take it, or nobody knows whether it did. */
export function onSaveFailed(draft: DraftState, remote: MessageContent): DraftState {
  return { ...draft, remote, isUnsaved: !isSameContent(draft.local, remote) };
}

/** The same things have got other names: contents that were sent along are kept by the host from now on. */
export function onStored(draft: DraftState, local: MessageContent, remote: MessageContent): DraftState {
  return { ...draft, local, remote, isUnsaved: !isSameContent(local, remote) };
}

/** The field was emptied because its message is on its way. */
export function onSent(draft: DraftState): DraftState {
  return { ...EMPTY_DRAFT, remote: EMPTY_CONTENT, typedAt: draft.typedAt };
}

/** The host's draft as it is now. The echo of one's own is no news. */
export function onRemoteDraft(draft: DraftState, remote: MessageContent, now: number): DraftState {
  return isSameContent(remote, draft.remote) ? draft : adoptRemote({ ...draft, remote }, now);
}

/** Takes what others wrote, once nobody types here. What was typed here and not told wins: it is told next. */
export function adoptRemote(draft: DraftState, now: number): DraftState {
  if (draft.isUnsaved || isTyping(draft, now) || isSameContent(draft.local, draft.remote)) return draft;
  return { ...draft, local: draft.remote };
}

export function isTyping(draft: DraftState, now: number): boolean {
  return now - draft.typedAt < TYPING_TIMEOUT_MS;
}
