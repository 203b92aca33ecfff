/** What somebody hears who does not see the chat. */

import type { activityOf } from '../ahp/index.ts';

type ChatActivity = ReturnType<typeof activityOf>;

/** What is said when a chat does something else than before; none if there is nothing to say. */
export function statusAnnouncement(previous: ChatActivity | undefined, current: ChatActivity): string | undefined {
  if (previous === undefined || previous === current) return undefined;
  switch (current) {
    case 'inProgress':
      return previous === 'inputNeeded' ? undefined : 'The agent is working';
    case 'inputNeeded':
      return 'The agent is waiting for you';
    case 'error':
      return 'The turn failed';
    case 'idle':
      return previous === 'error' ? undefined : 'Answer complete';
  }
}
