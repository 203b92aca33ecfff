/** The queue of messages that wait for the running turn. */

import { expect, test, vi } from 'vitest';
import type { PendingMessage } from '../../src/ahp/index.ts';
import MessageQueue from '../../src/composer/MessageQueue.svelte';
import { shortcuts } from '../../src/core/shortcut-dispatcher.ts';
import {
  allByRole,
  byRole,
  click,
  fakeChat,
  fakeSession,
  press,
  renderInPage,
  settle,
  type,
} from './support/render.ts';

const item = (text: string): PendingMessage => ({ id: `id ${text}`, message: { text, origin: { kind: 'user' } } });
const message = { text: '', origin: { kind: 'user' as const } };
const activeTurn = { id: 't', startedAt: '', message, responseParts: [] };

function show(texts: readonly string[], isRunning = true, isPaused = false) {
  const queuedMessages = texts.map(item);
  const { chat, spies, setState } = fakeChat({ queuedMessages, ...(isRunning && { activeTurn }) });
  const session = fakeSession(isPaused ? { _meta: { hostler: { queuePaused: true } } } : {});
  const [ontextreturned, onitemremoved] = [vi.fn(), vi.fn()];
  const shown = renderInPage(MessageQueue, { session, chat, ontextreturned, onitemremoved });
  return { ...shown, spies, setState, ontextreturned, onitemremoved };
}

test('an empty queue is not displayed', () => {
  expect(show([]).container.querySelector('section')).toBeNull();
});

test('queued messages are listed in order', () => {
  const { container } = show(['first', 'second']);
  expect(byRole('region', 'Queue')).toBeTruthy();
  expect([...container.querySelectorAll('.text')].map((text) => text.textContent)).toEqual(['first', 'second']);
  expect(container.textContent).toContain('2 messages after this turn');
});

test('keys move a message, the focus follows it, and the move is announced', async () => {
  const { spies, setState, container } = show(['first', 'second', 'third']);
  const stop = shortcuts.listen(window);
  byRole('button', 'Move: first').focus();
  await press('ArrowDown', { altKey: true });
  stop();
  expect(spies.reorder).toHaveBeenCalledWith(['id second', 'id first', 'id third']);
  setState({ queuedMessages: ['second', 'first', 'third'].map(item), activeTurn });
  await settle();
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Move: first');
  expect(container.querySelector('[role="status"]')?.textContent).toBe('Moved to position 2 of 3.');
});

test('a removed message returns to the message field', async () => {
  const { spies, ontextreturned, onitemremoved } = show(['first', 'second']);
  await click(byRole('button', 'Remove: second'));
  expect(onitemremoved).toHaveBeenCalledOnce();
  expect(ontextreturned).toHaveBeenCalledWith({ text: 'second', attachments: [] });
  expect(spies.removePendingMessage).toHaveBeenCalledWith('queued', 'id second');
});

test('an edited message is saved under its id; Cancel keeps the old text', async () => {
  const { spies } = show(['first']);
  await click(byRole('button', 'Edit: first'));
  await type(byRole('textbox', 'Queued message'), 'other');
  await click(byRole('button', 'Cancel'));
  expect(spies.queue).not.toHaveBeenCalled();
  await click(byRole('button', 'Edit: first'));
  await type(byRole('textbox', 'Queued message'), 'better');
  await click(byRole('button', 'Save'));
  expect(spies.queue).toHaveBeenCalledWith({ ...item('first').message, text: 'better' }, 'id first');
});

test('a message that was sent while it was edited returns the edit', async () => {
  const { setState, ontextreturned } = show(['first']);
  await click(byRole('button', 'Edit: first'));
  await type(byRole('textbox', 'Queued message'), 'half an ed');
  setState({ queuedMessages: [], activeTurn });
  await settle();
  expect(ontextreturned).toHaveBeenCalledWith({ text: 'half an ed', attachments: [] }, expect.stringContaining('sent'));
});

test('a paused queue says so and is resumed', async () => {
  const { spies, container } = show(['first'], false, true);
  expect(container.textContent).toContain('The queue is paused.');
  await click(byRole('button', 'Resume'));
  expect(spies.reorder).toHaveBeenCalledWith(['id first']);
  expect(allByRole('button').some((button) => button.getAttribute('aria-label') === 'Send now: first')).toBe(true);
});
