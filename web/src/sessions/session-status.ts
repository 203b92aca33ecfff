/** A session's status in words and shapes. */

import { activityOf, type SessionSummary } from '../ahp/index.ts';
import { isUnread, tagOf } from './session-rows.ts';

export type Shape = 'working' | 'waiting' | 'failed' | 'unread' | 'idle';

export function shapeOf(session: SessionSummary): Shape {
  switch (activityOf(session.status)) {
    case 'inputNeeded':
      return 'waiting';
    case 'inProgress':
      return 'working';
    case 'error':
      return 'failed';
    case 'idle':
      return isUnread(session) ? 'unread' : 'idle';
  }
}

/** What a shape means; what is idle needs no word. */
export const WORDS: Readonly<Record<Shape, string>> = {
  working: 'Working',
  waiting: 'Waiting for you',
  failed: 'Failed',
  unread: 'Unread',
  idle: '',
};

/** The second line of a session: what it does, as far as that is not said by its group, whose sessions name their folder. */
export function secondLine(session: SessionSummary, folder: string | undefined): string {
  const shape = shapeOf(session);
  const doing = session.activity || (folder || shape === 'unread' ? '' : WORDS[shape]);
  const tag = tagOf(session);
  return [folder, doing, tag && `#${tag}`].filter(Boolean).join(' · ');
}
