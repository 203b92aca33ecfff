/** What the composer can do now, and what it says about it. Pure. */

import type { ChatState, SessionState, View } from '../ahp/index.ts';
import { many } from '../ui/format.ts';
import { CONTROL } from './composer-keys.ts';

/** How a message leaves the field. */
export type Way = 'send' | 'queue' | 'steer';

export interface Situation {
  /** Why nobody can write here. */
  readonly closed?: string;
  readonly running: boolean;
  /** A request of this chat waits for an answer: Escape does not stop the turn then. */
  readonly isAsked: boolean;
  readonly away: boolean;
  /** What Enter and the button do. */
  readonly way: Way;
  readonly hint: string;
}

export interface Facts {
  readonly chat: View<ChatState>;
  readonly session: View<SessionState>;
  /** The chat's own. */
  readonly uri: string;
  readonly text: string;
  /** What a message begins with that the host runs as a command. */
  readonly commandPrefix?: string;
  /** Escape was pressed once. */
  readonly asked: boolean;
  readonly touch: boolean;
}

export function situationOf(facts: Facts): Situation {
  const { chat, session } = facts;
  const running = chat.state?.activeTurn !== undefined;
  const away = chat.status === 'disconnected' || (chat.status === 'loading' && chat.state !== undefined);
  const closed = closedBecause(chat, session);
  const way = running ? 'queue' : 'send';
  const isAsked = session.state?.inputNeeded?.some((entry) => entry.chat === facts.uri) ?? false;
  return {
    running,
    isAsked,
    away,
    way,
    hint: hintOf(facts, running, isAsked, away),
    ...(closed !== undefined && { closed }),
  };
}

function closedBecause(chat: View<ChatState>, session: View<SessionState>): string | undefined {
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

function hintOf(facts: Facts, running: boolean, isAsked: boolean, away: boolean): string {
  const { chat, session, text, commandPrefix, asked, touch } = facts;
  if (away) {
    return chat.pending > 0
      ? 'The host is away: what you sent will be delivered when it is back.'
      : 'The host is away: you can write on, and what you send will be delivered when it is back.';
  }
  if (running && asked && !isAsked) return 'Press Escape once more to stop the turn.';
  if (commandPrefix && text.startsWith(commandPrefix) && text.trim() !== commandPrefix) {
    return 'Runs as a command in the session’s directory, without the agent.';
  }
  if (running) {
    if (text.trim() === '') return touch || isAsked ? '' : 'The agent works. Escape twice stops it.';
    return touch
      ? 'Waits until this turn is over.'
      : `Enter: after this turn. ${CONTROL}+Enter: into this turn, at its next step.`;
  }
  const waiting = chat.state?.queuedMessages?.length ?? 0;
  if (isPaused(session.state) && waiting > 0 && text.trim() !== '') {
    return `Sent first; then the ${many(waiting, 'message')} in the queue.`;
  }
  return text === '' || touch ? '' : 'Enter sends, Shift+Enter begins a new line.';
}

export function placeholderOf(running: boolean, touch: boolean): string {
  if (running) return 'What comes next?';
  return touch ? 'Message the agent' : 'Message the agent: @ names files, / commands';
}

/** Whether the queue waits for a person. */
export function isPaused(session: SessionState | undefined): boolean {
  const { hostler } = session?._meta ?? {};
  return typeof hostler === 'object' && hostler !== null && 'queuePaused' in hostler && hostler.queuePaused === true;
}
