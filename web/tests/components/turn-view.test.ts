/** One turn: the message, the answer and the footer. */

import { expect, test } from 'vitest';
import type { ActiveTurn, ResponsePart, ToolCall, Turn } from '../../src/ahp/index.ts';
import TurnView from '../../src/chat/TurnView.svelte';
import { allByRole, byRole, click, fakeChat, fakeSession, renderInPage } from './support/render.ts';

const message = { text: 'Count the apples', origin: { kind: 'user' as const } };
const text = (content: string): ResponsePart => ({ kind: 'markdown', id: content, content });

function call(id: string, more: Partial<ToolCall> = {}): ResponsePart {
  const done = { status: 'completed', success: true, pastTenseMessage: `Did ${id}`, invocationMessage: `Doing ${id}` };
  return {
    kind: 'toolCall',
    toolCall: { toolCallId: id, toolName: 'x', displayName: 'X', ...done, ...more } as ToolCall,
  };
}

function show(turn: Turn | ActiveTurn): HTMLElement {
  const { chat } = fakeChat('state' in turn ? { turns: [turn] } : { activeTurn: turn });
  return renderInPage(TurnView, { session: fakeSession(), chat, turn }).container;
}

test('a finished turn shows the message, the answer as markdown, and what it took', () => {
  const container = show({
    id: 't',
    message,
    responseParts: [text('There are **four** apples.\n\n- one\n- two')],
    duration: 2_500,
    usage: { model: 'm-1', inputTokens: 1_200, outputTokens: 30 },
    state: 'complete',
  });
  expect(container.querySelector('.bubble')?.textContent).toContain('Count the apples');
  expect(container.querySelector('strong')?.textContent).toBe('four');
  expect(container.querySelectorAll('.answer li').length).toBe(2);
  expect(container.querySelector('footer')?.textContent).toContain('2.5 s · m-1');
  expect(byRole('button', /copy/i)).toBeTruthy();
});

test('markup in an answer is text', () => {
  const container = show({
    id: 't',
    message,
    responseParts: [text('<img src=x onerror=alert(1)>')],
    state: 'complete',
  });
  expect(container.querySelector('img')).toBeNull();
  expect(container.textContent).toContain('<img src=x onerror=alert(1)>');
});

test('finished calls collapse, and expand on a click', async () => {
  const parts = [call('1'), call('2'), call('3'), text('Done.')];
  const container = show({ id: 't', message, responseParts: parts, state: 'complete' });
  expect(container.textContent).not.toContain('Did 2');
  const toggle = byRole('button', /3 steps/);
  expect(toggle.getAttribute('aria-expanded')).toBe('false');
  await click(toggle);
  expect(toggle.getAttribute('aria-expanded')).toBe('true');
  expect(container.textContent).toContain('Did 2');
});

test('a running turn has no footer and says that it works', () => {
  const container = show({ id: 't', startedAt: new Date().toISOString(), message, responseParts: [call('1')] });
  expect(container.querySelector('footer')).toBeNull();
  expect(container.querySelector('.working .text')?.textContent).toBe('Working');
});

test('an unknown part of a newer host is named', () => {
  const part = { kind: 'hologram' } as unknown as ResponsePart;
  const container = show({ id: 't', message, responseParts: [part], state: 'complete' });
  expect(container.textContent).toContain('hologram');
});

test('a long message is shortened until it is expanded', async () => {
  show({ id: 't', message: { ...message, text: 'word '.repeat(500) }, responseParts: [], state: 'cancelled' });
  const toggle = allByRole('button').find((button) => button.hasAttribute('aria-expanded'));
  if (!toggle) throw new Error('no button expands the message');
  await click(toggle);
  expect(toggle.getAttribute('aria-expanded')).toBe('true');
});
