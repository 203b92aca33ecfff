/** The card that asks whether a tool may run. */

import { expect, test } from 'vitest';
import type { ToolCallPending } from '../../src/ahp/index.ts';
import ConfirmationCard from '../../src/tools/confirm/ConfirmationCard.svelte';
import { byRole, click, fakeChat, renderInPage, settle, type } from './support/render.ts';

let calls = 0;

function show(more: Partial<ToolCallPending> = {}) {
  calls += 1;
  const call: ToolCallPending = {
    status: 'pending-confirmation',
    toolCallId: `call ${calls}`,
    toolName: 'run',
    displayName: 'Run',
    invocationMessage: 'Running a command',
    toolInput: '{"command":"rm -r build"}',
    ...more,
  };
  const { chat, spies } = fakeChat();
  const shown = renderInPage(ConfirmationCard, { chat, turnId: 'turn', call, directory: undefined });
  const decision = () => spies.confirm?.mock.calls.at(-1)?.[2];
  return { ...shown, call, spies, decision };
}

test('the card names the tool and shows its input', () => {
  const { container } = show();
  expect(container.textContent).toContain('Allow Run?');
  expect(container.textContent).toContain('rm -r build');
});

test('its buttons allow and deny', async () => {
  const { call, spies, decision } = show();
  await click(byRole('button', /^Allow/));
  expect(spies.confirm).toHaveBeenCalledWith('turn', call.toolCallId, { approved: true });
  await click(byRole('button', /^Deny(?! with)/));
  expect(decision()).toEqual({ approved: false, reason: 'denied' });
});

test('the options of the host are buttons, in its groups', async () => {
  const options = [
    { id: 'once', label: 'Yes', kind: 'approve' },
    { id: 'rule', label: 'Always `rm`', kind: 'approve', group: 2 },
    { id: 'session', label: 'In this session', kind: 'approve', group: 1 },
    { id: 'no', label: 'No', kind: 'deny' },
  ] as const;
  const { container, decision } = show({ options });
  expect([...container.querySelectorAll('li')].map((item) => item.textContent?.trim())).toEqual([
    'In this session 2',
    'Always rm 3',
  ]);
  await click(byRole('button', /^Always/));
  expect(decision()).toEqual({ approved: true, selectedOptionId: 'rule' });
});

test('a message denies with a reason, and returns if the host rejects it', async () => {
  const { page, spies, decision } = show();
  await click(byRole('button', /^Deny with a message/));
  const field = byRole('textbox');
  expect(document.activeElement).toBe(field);
  await type(field, 'Use cargo clean.');
  spies.confirm?.mockRejectedValueOnce(new Error('The turn is over.'));
  await click(byRole('button', /^Deny and send/));
  await settle();
  expect(decision()).toEqual({ approved: false, reason: 'denied', reasonMessage: 'Use cargo clean.' });
  expect(page.notices.map(({ text }) => text)).toEqual(['The turn is over.']);
  expect((byRole('textbox') as HTMLTextAreaElement).value).toBe('Use cargo clean.');
});

test('only an editable input can be edited', async () => {
  show();
  expect(() => byRole('button', /^Edit input/)).toThrow();
  const { decision } = show({ editable: true, toolInput: '{"path":"a"}' });
  await click(byRole('button', /^Edit input/));
  await type(byRole('textbox'), '{"path":"b"}');
  await click(byRole('button', /^Allow with this input/));
  expect(decision()).toEqual({ approved: true, editedToolInput: '{"path":"b"}' });
});

test('invisible characters in the input are named', () => {
  const { container } = show({ toolInput: JSON.stringify({ command: 'ls \u202e gpj.exe' }) });
  expect(container.textContent).toContain('⟨U+202E⟩');
});
