/**
 * Reconciles the local text of the message field with the host's draft, which carries changes of other clients. Pure; the
 * time is a parameter.
 */

import { EMPTY_CONTENT, isSameContent, type MessageContent } from './message-content.ts';

export interface DraftState {
  /** The content of the field. */
  readonly local: MessageContent;
  /** The host's draft, as last received or saved. */
  readonly remote: MessageContent;
  /** Time of the last local edit. */
  readonly typedAt: number;
  /** Whether the field has unsaved edits. */
  readonly isUnsaved: boolean;
}

/** Pause after the last key before a save. */
export const SAVE_DELAY_MS = 400;

/** Time after the last key during which remote drafts do not replace the field. */
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

/** A save of the field started. */
export function onSaving(draft: DraftState): DraftState {
  return { ...draft, remote: draft.local, isUnsaved: false };
}

/** A save failed, or its outcome is unknown. */
export function onSaveFailed(draft: DraftState, remote: MessageContent): DraftState {
  return { ...draft, remote, isUnsaved: !isSameContent(draft.local, remote) };
}

/** The host stored embedded attachments under references. */
export function onStored(draft: DraftState, local: MessageContent, remote: MessageContent): DraftState {
  return { ...draft, local, remote, isUnsaved: !isSameContent(local, remote) };
}

/** The field was emptied because its message was sent. */
export function onSent(draft: DraftState): DraftState {
  return { ...EMPTY_DRAFT, remote: EMPTY_CONTENT, typedAt: draft.typedAt };
}

/** The host's draft changed. The echo of a save is ignored. */
export function onRemoteDraft(draft: DraftState, remote: MessageContent, now: number): DraftState {
  return isSameContent(remote, draft.remote) ? draft : adoptRemote({ ...draft, remote }, now);
}

/** Adopts the remote draft once typing stops. Unsaved local edits win and are saved next. */
export function adoptRemote(draft: DraftState, now: number): DraftState {
  if (draft.isUnsaved || isTyping(draft, now) || isSameContent(draft.local, draft.remote)) return draft;
  return { ...draft, local: draft.remote };
}

export function isTyping(draft: DraftState, now: number): boolean {
  return now - draft.typedAt < TYPING_TIMEOUT_MS;
}
