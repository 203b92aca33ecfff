/** A session's status in words and shapes. */

import { activityOf, type SessionSummary } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import { isUnread, sessionTag } from './session-rows.ts';

export type StatusShape = 'working' | 'waiting' | 'failed' | 'unread' | 'idle';

export function sessionStatusShape(session: SessionSummary): StatusShape {
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
export const STATUS_LABELS: Readonly<Record<StatusShape, string>> = {
  working: strings.common.working,
  waiting: strings.common.waitingForYou,
  failed: strings.common.failed,
  unread: strings.sessions.unread,
  idle: '',
};

/** The second line of a session: what it does, as far as that is not said by its group, whose sessions name their folder. */
export function sessionSubtitle(session: SessionSummary, folder: string | undefined): string {
  const shape = sessionStatusShape(session);
  const activity = session.activity || (folder || shape === 'unread' ? '' : STATUS_LABELS[shape]);
  const tag = sessionTag(session);
  return [folder, activity, tag && `#${tag}`].filter(Boolean).join(' · ');
}
