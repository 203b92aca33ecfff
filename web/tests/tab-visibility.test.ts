/** Visibility messages between tabs. */

import { afterEach, expect, test } from 'vitest';
import { TabVisibility } from '../src/shell/tab-visibility.ts';

const open: TabVisibility[] = [];

/** A tab that shows a session, or none. */
function tab(name: string, visibleSession: { session?: string } = {}) {
  const visibleElsewhere: string[] = [];
  const wake: (() => void)[] = [];
  const tabVisibility = new TabVisibility(
    (session) => session === visibleSession.session,
    (session) => {
      visibleElsewhere.push(session);
      for (const run of wake.splice(0)) run();
    },
    name,
  );
  open.push(tabVisibility);
  return { tabVisibility, visibleElsewhere, next: () => new Promise<void>((resolve) => wake.push(resolve)) };
}

afterEach(() => {
  for (const tabVisibility of open.splice(0)) tabVisibility.close();
});

test('a tab detects whether another tab shows a session', async () => {
  const [background] = [tab('a'), tab('a', { session: 'p:/1' }), tab('a', { session: 'p:/2' })];
  expect(await background.tabVisibility.isVisibleInOtherTab('p:/1')).toBe(true);
  expect(await background.tabVisibility.isVisibleInOtherTab('p:/3')).toBe(false);
  const both = ['p:/2', 'p:/1'].map((session) => background.tabVisibility.isVisibleInOtherTab(session));
  expect(await Promise.all(both)).toEqual([true, true]);
});

test('a closed tab does not reply', async () => {
  const [background, other] = [tab('b'), tab('b', { session: 'p:/1' })];
  other.tabVisibility.close();
  expect(await background.tabVisibility.isVisibleInOtherTab('p:/1')).toBe(false);
});

test('a tab announces the session that becomes visible', async () => {
  const [background, other] = [tab('c'), tab('c')];
  const visibleElsewhere = background.next();
  other.tabVisibility.announceVisible('p:/1');
  await visibleElsewhere;
  expect([background.visibleElsewhere, other.visibleElsewhere]).toEqual([['p:/1'], []]);
});
