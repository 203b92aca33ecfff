/** What somebody hears who does not see the chat. */

import type { activityOf } from '../ahp/index.ts';

type Activity = ReturnType<typeof activityOf>;

/** What is said when a chat does something else than before; none if there is nothing to say. */
export function announced(before: Activity | undefined, now: Activity): string | undefined {
  if (before === undefined || before === now) return undefined;
  switch (now) {
    case 'inProgress':
      return before === 'inputNeeded' ? undefined : 'The agent is working';
    case 'inputNeeded':
      return 'The agent is waiting for you';
    case 'error':
      return 'The turn failed';
    case 'idle':
      return before === 'error' ? undefined : 'Answer complete';
  }
}
