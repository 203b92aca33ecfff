/** What somebody is told who does not look: which sessions wait, fail or are done. */

import { activityOf, type SessionSummary, type Uri } from '../ahp/index.ts';
import { isArchived, sessionTitle } from '../sessions/session-rows.ts';
import { strings } from '../strings.ts';

export type SessionActivity = ReturnType<typeof activityOf>;

export interface SessionEvent {
  readonly session: Uri;
  readonly kind: 'waiting' | 'failed' | 'finished';
  readonly title: string;
}

/** What is known of each session: enough to see that something has changed. */
export type ActivityBySession = ReadonlyMap<Uri, SessionActivity>;

export function activityBySession(items: readonly SessionSummary[]): ActivityBySession {
  return new Map(items.map(({ resource, status }) => [resource, activityOf(status)]));
}

/** What has happened since. A session that was not known is no news: it may have been on a page that was not read. */
export function detectSessionEvents(
  before: ActivityBySession,
  items: readonly SessionSummary[],
): readonly SessionEvent[] {
  return items.flatMap((session) => {
    const previous = before.get(session.resource);
    const kind = previous && !isArchived(session) ? eventKind(previous, activityOf(session.status)) : undefined;
    return kind ? [{ session: session.resource, kind, title: sessionTitle(session) }] : [];
  });
}

function eventKind(previous: SessionActivity, current: SessionActivity): SessionEvent['kind'] | undefined {
  if (previous === current) return undefined;
  if (current === 'inputNeeded') return 'waiting';
  if (current === 'error') return 'failed';
  return current === 'idle' && (previous === 'inProgress' || previous === 'inputNeeded') ? 'finished' : undefined;
}

/** What a notification says below the session's title. */
export const NOTIFICATION_TEXT: Readonly<Record<SessionEvent['kind'], string>> = {
  waiting: strings.notifications.waiting,
  failed: strings.notifications.failed,
  finished: strings.notifications.finished,
};

/** Whether a notification still says the truth. */
export function isEventCurrent(kind: SessionEvent['kind'], activity: SessionActivity | undefined): boolean {
  return activity !== undefined && { waiting: 'inputNeeded', failed: 'error', finished: 'idle' }[kind] === activity;
}

/**
 * Whether a browser has notifications, but none that a page may show: phones leave them to workers in the background, which this
 * page has none of. It is tried before anything is allowed, since then nothing is shown.
 */
export function requiresServiceWorker(Notifications: typeof Notification): boolean {
  if (Notifications.permission === 'granted') return false;
  try {
    return new Notifications('') === undefined;
  } catch {
    return true;
  }
}

/** The title of a tab: how many sessions wait, and where one is. */
export function tabTitle(waiting: number, location: string | undefined): string {
  return `${waiting > 0 ? `(${waiting}) ` : ''}${location ? `${location} · ` : ''}Hostler`;
}
