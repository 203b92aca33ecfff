/** What somebody hears who does not see the chat. */

import type { activityOf } from '../ahp/index.ts';
import { strings } from '../strings.ts';

type ChatActivity = ReturnType<typeof activityOf>;

/** What is said when a chat does something else than before; none if there is nothing to say. */
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
