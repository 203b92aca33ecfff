/** Pending requests and display properties of tool calls. */

import { expect, test } from 'vitest';
import type { ChatInputRequest, ChatState, SessionInputRequest, ToolCall } from '../src/ahp/index.ts';
import { createEditableInput } from '../src/tools/editable-input.ts';
import { pendingRequestRows } from '../src/tools/pending-requests.ts';
import { classifyBytes, decodeEmbedded } from '../src/tools/resource-contents.ts';
import {
  cancellationReason,
  isShownByInputRequest,
  toolCallChanges,
  toolCallExitCode,
  toolCallIcon,
  toolCallStage,
  toolCallTitle,
} from '../src/tools/tool-call.ts';

const ready = {
  toolCallId: 'c',
  toolName: 'Bash',
  displayName: 'Bash',
  invocationMessage: { markdown: 'Running `ls`' },
};
const pending = { ...ready, status: 'pending-confirmation' } as const;
const done = { ...ready, status: 'completed', confirmed: 'not-needed', success: true, pastTenseMessage: '' } as const;

test('pending requests are listed with their card, from any chat', () => {
  const request: ChatInputRequest = { id: 'r', questions: [{ kind: 'text', id: 'q', message: 'Which one?' }] };
  const entries: SessionInputRequest[] = [
    { kind: 'toolConfirmation', id: '1', chat: 'there', turnId: 't', toolCall: pending },
    { kind: 'chatInput', id: '2', chat: 'here', request },
    { kind: 'chatInput', id: '3', chat: 'here', request: { ...request, id: 'late' } },
    {
      kind: 'toolClientExecution',
      id: '4',
      chat: 'here',
      turnId: 't',
      clientId: 'c',
      toolCall: { ...ready, status: 'running', confirmed: 'not-needed' },
    },
  ];
  const message = { text: '', origin: { kind: 'user' } } as const;
  const activeTurn = { id: 't', startedAt: '', message, responseParts: [{ kind: 'inputRequest', request } as const] };
  const state: ChatState = { resource: 'here', title: '', status: 24, modifiedAt: '', turns: [], activeTurn };
  const displayed = pendingRequestRows(entries, 'here', state).map(({ cardId, isInThisChat, isSessionRequest }) => [
    cardId,
    isInThisChat,
    isSessionRequest,
  ]);
  expect(displayed).toEqual([
    ['call-c@there', false, false],
    ['request-r@here', true, false],
    ['request-late@here', true, true],
  ]);
});

test('a call maps to its stage', () => {
  const cases: [ToolCall, string][] = [
    [{ ...ready, status: 'streaming' }, 'writing'],
    [pending, 'waiting'],
    [{ ...ready, status: 'running', confirmed: 'not-needed' }, 'running'],
    [{ ...ready, toolName: 'AskUserQuestion', status: 'running', confirmed: 'not-needed' }, 'waiting'],
    [done, 'done'],
    [{ ...done, success: false }, 'failed'],
    [{ ...ready, status: 'cancelled', reason: 'denied' }, 'denied'],
    [{ ...ready, status: 'cancelled', reason: 'skipped' }, 'skipped'],
    [{ ...ready, status: 'brand-new' } as unknown as ToolCall, 'unknown'],
  ];
  for (const [call, stage] of cases) expect(toolCallStage(call), call.status).toBe(stage);
});

test('a call reports its outcome', () => {
  const failed = { ...done, success: false, content: [{ type: 'text', text: 'Exit code 2\nls: no' }] } as const;
  expect(toolCallExitCode(failed)).toBe(2);
  expect(toolCallExitCode({ ...done, content: [{ type: 'text', text: 'Exit code 2' }] })).toBeUndefined();
  const edit = { type: 'fileEdit', diff: { added: 3, removed: 1 } } as const;
  expect(toolCallChanges({ ...done, content: [edit, edit] })).toEqual({ added: 6, removed: 2 });
  expect(toolCallChanges(done)).toBeUndefined();
  const suggestion = { text: 'rather ls', origin: { kind: 'user' } } as const;
  const denied = {
    ...ready,
    status: 'cancelled',
    reason: 'denied',
    reasonMessage: 'no',
    userSuggestion: suggestion,
  } as const;
  expect(cancellationReason(denied)).toBe('no\nrather ls');
  expect(toolCallIcon({ ...done, _meta: { toolKind: 'terminal' } })).toBe('terminal');
  expect(toolCallIcon({ ...done, toolName: 'BrandNew' })).toBe('tool');
});

test('a command is edited as text, and other input as JSON', () => {
  const command = createEditableInput('{"command":"ls","timeout":5}');
  expect([command.label, command.text]).toEqual(['Command', 'ls']);
  expect(JSON.parse(command.toJson('ls -l'))).toEqual({ command: 'ls -l', timeout: 5 });
  expect(command.validate(' ')).toBe('Enter a command.');
  const other = createEditableInput('{"path":"a"}');
  expect(other.text).toBe('{\n  "path": "a"\n}');
  expect(other.validate('[]')).toBe('The input must be a JSON object.');
  expect(other.toJson('{"path":"b"}')).toBe('{"path":"b"}');
});

test('contents are text when they decode as text, regardless of their type', () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  expect(classifyBytes(bytes('grüezi'), 'application/octet-stream')).toEqual({ kind: 'text', text: 'grüezi' });
  expect(classifyBytes(new Uint8Array([0xff, 0xfe]), 'text/plain').kind).toBe('bytes');
  expect(classifyBytes(new Uint8Array([65, 0, 66]), 'text/plain').kind).toBe('bytes');
  expect(classifyBytes(bytes('<svg/>'), 'image/svg+xml').kind).toBe('bytes');
  expect(decodeEmbedded('aGk=', 'text/plain')).toEqual({ kind: 'text', text: 'hi' });
  expect(decodeEmbedded('!', 'image/png')).toEqual({
    kind: 'text',
    text: 'Could not decode the contents (image/png).',
  });
});

test('a question tool call is represented by its input request', () => {
  const call: ToolCall = { ...ready, toolName: 'ExitPlanMode', status: 'running', confirmed: 'not-needed' };
  const part = (toolCall: ToolCall) => ({ kind: 'toolCall', toolCall }) as const;
  const question = { kind: 'inputRequest', request: { id: 'r' } } as const;
  expect(isShownByInputRequest(call, [part(call), question])).toBe(true);
  expect(isShownByInputRequest(call, [question, part(call)])).toBe(false);
  const failed: ToolCall = { ...done, toolName: 'ExitPlanMode', success: false };
  expect(isShownByInputRequest(failed, [part(failed), question])).toBe(false);
  expect(isShownByInputRequest(done, [part(done), question])).toBe(false);
});

test('a call that does not run has a neutral title', () => {
  expect(toolCallTitle({ ...pending, toolInput: '{"command":"ls `x`\\nls"}' })).toEqual({ markdown: "Bash `ls 'x'`" });
  expect(toolCallTitle({ ...ready, status: 'streaming', partialInput: '{"comm' })).toBe('Bash');
  expect(toolCallTitle({ ...pending, toolInput: { uri: 'ahp-content:/1' } })).toEqual({ markdown: 'Running `ls`' });
});
