/** Session notifications and connection notices. */

import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/ahp/index.ts';
import { connectionNotice, versionNotice } from '../src/shell/connection-status.ts';
import {
  activityBySession,
  detectSessionEvents,
  isEventCurrent,
  requiresServiceWorker,
  tabTitle,
} from '../src/shell/session-notifications.ts';

const IDLE = 1;
const FAILED = 2;
const WORKING = 8;
const WAITING = 24;
const ARCHIVED = 64;

function session(title: string, status: number): SessionSummary {
  return { resource: `p:/${title}`, provider: 'p', title, status, createdAt: '2026', modifiedAt: '2026' };
}

function events(before: number, after: number): string | undefined {
  return detectSessionEvents(activityBySession([session('one', before)]), [session('one', after)])[0]?.kind;
}

test('a session that starts waiting, fails or finishes is reported once', () => {
  expect(events(WORKING, WAITING)).toBe('waiting');
  expect(events(IDLE, WAITING)).toBe('waiting');
  expect(events(WAITING, WAITING)).toBeUndefined();
  expect(events(WORKING, FAILED)).toBe('failed');
  expect(events(WORKING, IDLE)).toBe('finished');
  expect(events(WORKING, IDLE | 32)).toBe('finished');
  expect(events(FAILED, IDLE)).toBeUndefined();
  expect(events(WAITING, WORKING)).toBeUndefined();
});

test('unknown and archived sessions are not reported', () => {
  expect(detectSessionEvents(new Map(), [session('one', WAITING)])).toEqual([]);
  expect(events(WORKING, WAITING | ARCHIVED)).toBeUndefined();
});

test('a notification is current while its state holds', () => {
  expect(isEventCurrent('waiting', 'inputNeeded')).toBe(true);
  expect(isEventCurrent('waiting', 'inProgress')).toBe(false);
  expect(isEventCurrent('finished', 'idle')).toBe(true);
  expect(isEventCurrent('failed', undefined)).toBe(false);
});

test('the tab title counts waiting sessions', () => {
  expect(tabTitle(2, 'Mend the gate')).toBe('(2) Mend the gate · Hostler');
  expect(tabTitle(0, undefined)).toBe('Hostler');
});

test('a short outage shows no notice, and a longer one says what happens next', () => {
  const waiting = { phase: 'waiting', failures: 1, until: 10_000, reason: '', offline: false } as const;
  expect(connectionNotice(waiting, 5_000, 6_000)).toBeUndefined();
  expect(connectionNotice({ phase: 'ready' }, 0, 60_000)).toBeUndefined();
  expect(connectionNotice(waiting, 5_000, 7_100)).toEqual({
    kind: 'disconnected',
    text: 'Disconnected from the host.',
    hint: 'Retrying in 3 s.',
  });
  expect(connectionNotice({ phase: 'connecting', failures: 9 }, 0, 3_725_000)).toEqual({
    kind: 'disconnected',
    text: 'Disconnected from the host for 1 h 2 min.',
    hint: 'Connecting…',
  });
  expect(connectionNotice({ ...waiting, offline: true }, 0, 9_900)?.kind).toBe('offline');
  expect(connectionNotice({ phase: 'refused', reason: 'It speaks 2.0.' }, 0, 1)?.hint).toContain('It speaks 2.0.');
});

test('a host with another version asks for a reload', () => {
  expect(versionNotice(undefined, '1.2.0')).toBeUndefined();
  expect(versionNotice('1.2.0', undefined)).toBeUndefined();
  expect(versionNotice('1.2.0', '1.2.0')).toBeUndefined();
  expect(versionNotice('1.2.0', '1.3.0')).toMatchObject({ kind: 'updated', text: 'The host was updated to 1.3.0.' });
});

test('a browser that requires a service worker is detected without showing a notification', () => {
  const made: string[] = [];
  class Phone {
    static permission = 'default';
    constructor() {
      throw new TypeError('Illegal constructor.');
    }
  }
  class Desktop {
    static permission = 'default';
    constructor(title: string) {
      made.push(title);
    }
  }
  const refuses = (browser: unknown) => requiresServiceWorker(browser as typeof Notification);
  expect([refuses(Phone), refuses(Desktop)]).toEqual([true, false]);
  expect(made).toEqual(['']);
  // With permission, the probe would be visible.
  Desktop.permission = 'granted';
  expect(refuses(Desktop)).toBe(false);
  expect(made).toEqual(['']);
});
