/** Screen reader announcements of chat status changes. Pure. */

import type { activityOf } from '../ahp/index.ts';
import { strings } from '../strings.ts';

type ChatActivity = ReturnType<typeof activityOf>;

/** The announcement for a status change, if any. */
export function statusAnnouncement(previous: ChatActivity | undefined, current: ChatActivity): string | undefined {
  if (previous === undefined || previous === current) return undefined;
  switch (current) {
    case 'inProgress':
      return previous === 'inputNeeded' ? undefined : strings.chat.announcements.working;
    case 'inputNeeded':
      return strings.chat.announcements.waiting;
    case 'error':
      return strings.chat.announcements.failed;
    case 'idle':
      return previous === 'error' ? undefined : strings.chat.announcements.finished;
  }
}
