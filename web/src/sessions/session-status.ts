/** Status shape, label and subtitle of a session. Pure. */

import { activityOf, type SessionSummary } from '../ahp/index.ts';
import { isUnread, sessionTag } from '../core/session-summary.ts';
import { strings } from '../strings.ts';

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

/** Labels of the shapes; idle has none. */
export const STATUS_LABELS: Readonly<Record<StatusShape, string>> = {
  working: strings.common.working,
  waiting: strings.common.waitingForYou,
  failed: strings.common.failed,
  unread: strings.sessions.unread,
  idle: '',
};

/** The subtitle of a session: folder, activity and tag, unless the group shows them. */
export function sessionSubtitle(session: SessionSummary, folder: string | undefined): string {
  const shape = sessionStatusShape(session);
  const activity = session.activity || (folder || shape === 'unread' ? '' : STATUS_LABELS[shape]);
  const tag = sessionTag(session);
  return [folder, activity, tag && `#${tag}`].filter(Boolean).join(' · ');
}
