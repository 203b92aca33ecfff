/** A session in the list. */

import { expect, test, vi } from 'vitest';
import { type SessionSummary, StatusFlag } from '../../src/ahp/index.ts';
import SessionItem from '../../src/sessions/SessionItem.svelte';
import { allByRole, byRole, click, press, renderInPage, settle, type } from './support/render.ts';

function show(more: Partial<SessionSummary> = {}, props: { isOpen?: boolean; isCurrent?: boolean } = {}) {
  const session: SessionSummary = {
    resource: 'p:/1',
    provider: 'p',
    title: 'Count the apples',
    status: 1 | StatusFlag.isRead,
    createdAt: '2026-01-01T00:00:00Z',
    modifiedAt: '2026-01-01T00:00:00Z',
    workingDirectories: ['file:///orchard'],
    ...more,
  };
  const row = { kind: 'session', key: session.resource, session } as const;
  const onfocus = vi.fn();
  const shown = renderInPage(SessionItem, { row, isOpen: false, isCurrent: true, ...props, onfocus });
  return { ...shown, session, onfocus };
}

test('it is a link to the session that opens it in the page', async () => {
  const { page } = show();
  const open = vi.spyOn(page, 'openSession').mockImplementation(() => undefined);
  const link = byRole('link', /Count the apples/);
  expect(link.getAttribute('href')).toContain('/session/');
  await click(link);
  expect(open).toHaveBeenCalledWith('p:/1');
});

test('a modified click is left to the browser', () => {
  const { page } = show();
  const open = vi.spyOn(page, 'openSession').mockImplementation(() => undefined);
  const event = new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: true });
  byRole('link').dispatchEvent(event);
  expect(event.defaultPrevented).toBe(false);
  expect(open).not.toHaveBeenCalled();
});

test('only the current row is a tab stop, and the open one says so', () => {
  show({}, { isCurrent: false });
  expect(byRole('link').tabIndex).toBe(-1);
  document.body.replaceChildren();
  show({}, { isOpen: true });
  expect(byRole('link').tabIndex).toBe(0);
  expect(byRole('link').getAttribute('aria-current')).toBe('page');
});

test('an unread session is marked until it is open and visible', async () => {
  expect(show({ status: 1 }).container.querySelector('.item')?.classList.contains('unread')).toBe(true);
  document.body.replaceChildren();
  const { container, page } = show({ status: 1 }, { isOpen: true });
  expect(container.querySelector('.item')?.classList.contains('unread')).toBe(false);
  page.actions.keptUnread = 'p:/1';
  await settle();
  expect(container.querySelector('.item')?.classList.contains('unread')).toBe(true);
});

test('its menu renames it in place: Enter saves, Escape cancels', async () => {
  const { page } = show();
  const rename = vi.spyOn(page.actions, 'rename').mockImplementation(async () => {
    page.actions.renaming = undefined;
  });
  await click(byRole('button', 'Actions for Count the apples'));
  expect(allByRole('menuitem').length).toBe(6);
  await click(byRole('menuitem', 'Rename'));
  const field = byRole('textbox', 'Session name');
  expect(document.activeElement).toBe(field);
  await press('Escape');
  expect(rename).not.toHaveBeenCalled();
  page.actions.renaming = 'p:/1';
  await settle();
  await type(byRole('textbox', 'Session name'), 'Count the pears');
  await press('Enter');
  expect(rename.mock.calls.map(([, title]) => title)).toEqual(['Count the pears']);
  expect(byRole('link', /Count the apples/)).toBeTruthy();
});

test('an untitled session has a name, and invisible characters are named', () => {
  show({ title: '  ' });
  expect(byRole('link').textContent).toMatch(/\p{L}{3}/u);
  document.body.replaceChildren();
  show({ title: 'gpj\u202e.exe' });
  expect(byRole('link').textContent).toContain('⟨U+202E⟩');
});
