/** What the composer can do, and its hints. Pure. */

import type { ChannelView, ChatState, SessionState } from '../ahp/index.ts';
import { readQueuePaused } from '../core/host-metadata.ts';
import { strings } from '../strings.ts';

import { MODIFIER_LABEL } from './composer-keys.ts';

/** How a message is delivered. */
export type SendMode = 'send' | 'queue' | 'steer';

export interface ComposerStatus {
  /** Why the chat is read-only. */
  readonly closedReason?: string;
  readonly isRunning: boolean;
  /** A request is pending in this chat, so Escape does not stop the turn. */
  readonly hasPendingRequest: boolean;
  readonly isDisconnected: boolean;
  /** What Enter and the send button do. */
  readonly sendMode: SendMode;
  readonly hint: string;
}

export interface ComposerStatusInput {
  readonly chat: ChannelView<ChatState>;
  readonly session: ChannelView<SessionState>;
  /** URI of the chat. */
  readonly uri: string;
  readonly text: string;
  /** Prefix of messages that the host runs as shell commands. */
  readonly commandPrefix?: string;
  /** Whether Escape was pressed once. */
  readonly isStopArmed: boolean;
  readonly isTouch: boolean;
}

export function composerStatus(input: ComposerStatusInput): ComposerStatus {
  const { chat, session } = input;
  const isRunning = chat.state?.activeTurn !== undefined;
  const isDisconnected = chat.status === 'disconnected' || (chat.status === 'loading' && chat.state !== undefined);
  const reason = closedReason(chat, session);
  const sendMode = isRunning ? 'queue' : 'send';
  const hasPendingRequest = session.state?.inputNeeded?.some((entry) => entry.chat === input.uri) ?? false;
  return {
    isRunning,
    hasPendingRequest,
    isDisconnected,
    sendMode,
    hint: composerHint(input, isRunning, hasPendingRequest, isDisconnected),
    ...(reason !== undefined && { closedReason: reason }),
  };
}

function closedReason(chat: ChannelView<ChatState>, session: ChannelView<SessionState>): string | undefined {
  if (chat.status === 'gone') return chat.error?.message ?? strings.composer.chatGone;
  const { interactivity, origin } = chat.state ?? {};
  if (interactivity === 'read-only' || interactivity === 'hidden') {
    return origin?.kind === 'tool' ? strings.composer.subAgentChat : strings.composer.readOnly;
  }
  if (session.state?.lifecycle === 'failed') {
    return session.state.creationError?.message ?? strings.composer.creationFailed;
  }
  return undefined;
}

function composerHint(
  input: ComposerStatusInput,
  isRunning: boolean,
  hasPendingRequest: boolean,
  isDisconnected: boolean,
): string {
  const { chat, session, text, commandPrefix, isStopArmed, isTouch } = input;
  if (isDisconnected) {
    return chat.pending > 0 ? strings.composer.reconnectingPending : strings.composer.reconnecting;
  }
  if (isRunning && isStopArmed && !hasPendingRequest) return strings.composer.confirmStop;
  if (commandPrefix && text.startsWith(commandPrefix) && text.trim() !== commandPrefix) {
    return strings.composer.commandHint;
  }
  if (isRunning) {
    if (text.trim() === '') return isTouch || hasPendingRequest ? '' : strings.composer.stopHint;
    return isTouch ? strings.composer.queueHintTouch : strings.composer.queueHint(MODIFIER_LABEL);
  }
  const waiting = chat.state?.queuedMessages?.length ?? 0;
  if (isQueuePaused(session.state) && waiting > 0 && text.trim() !== '') {
    return strings.composer.pausedQueueHint(waiting);
  }
  return text === '' || isTouch ? '' : strings.composer.sendHint;
}

export function composerPlaceholder(isRunning: boolean, isTouch: boolean): string {
  if (isRunning) return strings.composer.placeholderRunning;
  return isTouch ? strings.composer.placeholderTouch : strings.composer.placeholder;
}

/** Whether the queue is paused until a user resumes it. */
export function isQueuePaused(session: SessionState | undefined): boolean {
  return readQueuePaused(session?._meta);
}
