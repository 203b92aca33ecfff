/** What somebody is told who does not look: which sessions wait, fail or are done. */

import { activityOf, type SessionSummary, type Uri } from '../ahp/index.ts';
import { isArchived, titleOf } from '../sessions/session-rows.ts';

export type Activity = ReturnType<typeof activityOf>;

export interface News {
  readonly session: Uri;
  readonly kind: 'waiting' | 'failed' | 'finished';
  readonly title: string;
}

/** What is known of each session: enough to see that something has changed. */
export type Known = ReadonlyMap<Uri, Activity>;

export function knownOf(items: readonly SessionSummary[]): Known {
  return new Map(items.map(({ resource, status }) => [resource, activityOf(status)]));
}

/** What has happened since. A session that was not known is no news: it may have been on a page that was not read. */
export function newsOf(before: Known, items: readonly SessionSummary[]): readonly News[] {
  return items.flatMap((session) => {
    const was = before.get(session.resource);
    const kind = was && !isArchived(session) ? change(was, activityOf(session.status)) : undefined;
    return kind ? [{ session: session.resource, kind, title: titleOf(session) }] : [];
  });
}

function change(was: Activity, is: Activity): News['kind'] | undefined {
  if (was === is) return undefined;
  if (is === 'inputNeeded') return 'waiting';
  if (is === 'error') return 'failed';
  return is === 'idle' && (was === 'inProgress' || was === 'inputNeeded') ? 'finished' : undefined;
}

/** What a notification says below the session's title. */
export const SENTENCES: Readonly<Record<News['kind'], string>> = {
  waiting: 'Waits for you.',
  failed: 'Has failed.',
  finished: 'Is done.',
};

/** Whether a notification still says the truth. */
export function holds(kind: News['kind'], activity: Activity | undefined): boolean {
  return activity !== undefined && { waiting: 'inputNeeded', failed: 'error', finished: 'idle' }[kind] === activity;
}

/**
 * Whether a browser has notifications, but none that a page may show: phones leave them to workers in the background, which this
 * page has none of. It is tried before anything is allowed, since then nothing is shown.
 */
export function refusesPages(Notifications: typeof Notification): boolean {
  if (Notifications.permission === 'granted') return false;
  try {
    return new Notifications('') === undefined;
  } catch {
    return true;
  }
}

/** The title of a tab: how many sessions wait, and where one is. */
export function tabTitle(waiting: number, place: string | undefined): string {
  return `${waiting > 0 ? `(${waiting}) ` : ''}${place ? `${place} · ` : ''}Hostler`;
}
