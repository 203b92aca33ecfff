/** Session notifications: detects sessions that start waiting, fail or finish. Pure; `SessionNotifications.svelte` shows them. */

import { activityOf, type SessionSummary, type Uri } from '../ahp/index.ts';
import { isArchived, sessionTitle } from '../core/session-summary.ts';
import { strings } from '../strings.ts';

export type SessionActivity = ReturnType<typeof activityOf>;

export interface SessionEvent {
  readonly session: Uri;
  readonly kind: 'waiting' | 'failed' | 'finished';
  readonly title: string;
}

/** The last known activity of each session. */
export type ActivityBySession = ReadonlyMap<Uri, SessionActivity>;

export function activityBySession(items: readonly SessionSummary[]): ActivityBySession {
  return new Map(items.map(({ resource, status }) => [resource, activityOf(status)]));
}

/** Events since the previous activity. Unknown sessions are skipped, since they may come from a page that was not loaded. */
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

/** Notification body below the session's title. */
export const NOTIFICATION_TEXT: Readonly<Record<SessionEvent['kind'], string>> = {
  waiting: strings.notifications.waiting,
  failed: strings.notifications.failed,
  finished: strings.notifications.finished,
};

/** Whether an event still matches the session's activity. */
export function isEventCurrent(kind: SessionEvent['kind'], activity: SessionActivity | undefined): boolean {
  return activity !== undefined && { waiting: 'inputNeeded', failed: 'error', finished: 'idle' }[kind] === activity;
}

/**
 * Whether the browser shows notifications only from service workers, as phones do. Called before the permission is
 * granted, so that nothing shows.
 */
export function requiresServiceWorker(Notifications: typeof Notification): boolean {
  if (Notifications.permission === 'granted') return false;
  try {
    return new Notifications('') === undefined;
  } catch {
    return true;
  }
}

/** The tab title: number of waiting sessions and the current location. */
export function tabTitle(waiting: number, location: string | undefined): string {
  return `${waiting > 0 ? `(${waiting}) ` : ''}${location ? `${location} · ` : ''}Hostler`;
}
