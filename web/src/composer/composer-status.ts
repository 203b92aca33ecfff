/** What the composer can do now, and what it says about it. Pure. */

import type { ChatState, SessionState, View } from '../ahp/index.ts';
import { formatPlural } from '../ui/format.ts';
import { MODIFIER_LABEL } from './composer-keys.ts';

/** How a message leaves the field. */
export type SendMode = 'send' | 'queue' | 'steer';

export interface ComposerStatus {
  /** Why nobody can write here. */
  readonly closedReason?: string;
  readonly isRunning: boolean;
  /** A request of this chat waits for an answer: Escape does not stop the turn then. */
  readonly hasPendingRequest: boolean;
  readonly isDisconnected: boolean;
  /** What Enter and the button do. */
  readonly sendMode: SendMode;
  readonly hint: string;
}

export interface ComposerStatusInput {
  readonly chat: View<ChatState>;
  readonly session: View<SessionState>;
  /** The chat's own. */
  readonly uri: string;
  readonly text: string;
  /** What a message begins with that the host runs as a command. */
  readonly commandPrefix?: string;
  /** Escape was pressed once. */
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

function closedReason(chat: View<ChatState>, session: View<SessionState>): string | undefined {
  if (chat.status === 'gone') return chat.error?.message ?? 'This chat is not there any more.';
  const { interactivity, origin } = chat.state ?? {};
  if (interactivity === 'read-only' || interactivity === 'hidden') {
    return origin?.kind === 'tool'
      ? 'This is a sub-agent’s chat: it can be read, and what it asks can be answered.'
      : 'This chat can only be read.';
  }
  if (session.state?.lifecycle === 'failed') {
    return session.state.creationError?.message ?? 'This session could not be begun.';
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
    return chat.pending > 0
      ? 'The host is away: what you sent will be delivered when it is back.'
      : 'The host is away: you can write on, and what you send will be delivered when it is back.';
  }
  if (isRunning && isStopArmed && !hasPendingRequest) return 'Press Escape once more to stop the turn.';
  if (commandPrefix && text.startsWith(commandPrefix) && text.trim() !== commandPrefix) {
    return 'Runs as a command in the session’s directory, without the agent.';
  }
  if (isRunning) {
    if (text.trim() === '') return isTouch || hasPendingRequest ? '' : 'The agent works. Escape twice stops it.';
    return isTouch
      ? 'Waits until this turn is over.'
      : `Enter: after this turn. ${MODIFIER_LABEL}+Enter: into this turn, at its next step.`;
  }
  const waiting = chat.state?.queuedMessages?.length ?? 0;
  if (isQueuePaused(session.state) && waiting > 0 && text.trim() !== '') {
    return `Sent first; then the ${formatPlural(waiting, 'message')} in the queue.`;
  }
  return text === '' || isTouch ? '' : 'Enter sends, Shift+Enter begins a new line.';
}

export function composerPlaceholder(isRunning: boolean, isTouch: boolean): string {
  if (isRunning) return 'What comes next?';
  return isTouch ? 'Message the agent' : 'Message the agent: @ names files, / commands';
}

/** Whether the queue waits for a person. */
export function isQueuePaused(session: SessionState | undefined): boolean {
  const { hostler } = session?._meta ?? {};
  return typeof hostler === 'object' && hostler !== null && 'queuePaused' in hostler && hostler.queuePaused === true;
}
