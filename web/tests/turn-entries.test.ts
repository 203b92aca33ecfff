/** Entries of a turn. */

import { describe, expect, test } from 'vitest';
import type { ActiveTurn, ResponsePart, ToolCall, Turn } from '../src/ahp/index.ts';
import { answerText, estimateTurnHeight, lastLine, turnEntries } from '../src/chat/turn-entries.ts';

const text = (content: string): ResponsePart => ({ kind: 'markdown', id: content, content });
const reasoning: ResponsePart = { kind: 'reasoning', id: 'r', content: 'hm' };
function call(id: string, more: Partial<ToolCall> = {}): ResponsePart {
  const done = { status: 'completed', success: true, pastTenseMessage: 'Did', invocationMessage: 'Does' };
  return {
    kind: 'toolCall',
    toolCall: { toolCallId: id, toolName: 'x', displayName: 'X', ...done, ...more } as ToolCall,
  };
}
const message = { text: 'hello', origin: { kind: 'user' as const } };
const ended = (...responseParts: ResponsePart[]): Turn => ({ id: 't', message, responseParts, state: 'complete' });
const running = (...responseParts: ResponsePart[]): ActiveTurn => ({ id: 't', startedAt: '', message, responseParts });
const kinds = (turn: Turn | ActiveTurn) =>
  turnEntries(turn).map((entry) =>
    entry.kind === 'part' ? entry.part.kind : `${entry.calls} steps, ${entry.failed} failed`,
  );

describe('turn entries', () => {
  test('finished calls collapse together with the reasoning between them', () => {
    const turn = ended(text('a'), call('1'), reasoning, call('2', { success: false }), call('3'), text('b'));
    expect(kinds(turn)).toEqual(['markdown', '3 steps, 1 failed', 'markdown']);
  });

  test('few calls stay expanded', () => {
    expect(kinds(ended(call('1'), call('2'), text('b')))).toEqual(['toolCall', 'toolCall', 'markdown']);
  });

  test('running, pending and sub-agent calls stay expanded', () => {
    const waits = call('4', { status: 'pending-confirmation' });
    expect(kinds(running(call('1'), call('2'), call('3'), waits))).toEqual(['3 steps, 0 failed', 'toolCall']);
    const agent = call('3', { content: [{ type: 'subagent', resource: 'x', title: 'y' }] } as Partial<ToolCall>);
    expect(kinds(ended(call('1'), call('2'), agent, call('4')))).toEqual(Array(4).fill('toolCall'));
  });

  test('the latest calls stay expanded until something follows', () => {
    const calls = [call('1'), call('2'), call('3')];
    expect(kinds(running(...calls))).toEqual(['toolCall', 'toolCall', 'toolCall']);
    expect(kinds(running(...calls, text('so')))).toEqual(['3 steps, 0 failed', 'markdown']);
    expect(kinds(ended(...calls))).toEqual(['3 steps, 0 failed']);
    expect(kinds(ended(reasoning))).toEqual(['reasoning']);
  });

  test('unchanged entries keep their identity', () => {
    const first = [text('a'), call('1'), call('2'), call('3'), text('b')];
    const before = turnEntries(running(...first));
    const after = turnEntries(running(...first.slice(0, -1), text('b and more')), before);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after[2]).not.toBe(before[2]);
  });

  test('an unknown part becomes an entry', () => {
    const odd = { kind: 'hologram', beam: 1 } as unknown as ResponsePart;
    expect(kinds(ended(odd))).toEqual(['hologram']);
  });
});

test('the copied answer omits calls and reasoning', () => {
  expect(answerText(ended(text('one\n'), call('1'), reasoning, text(''), text('two')))).toBe('one\n\ntwo');
});

test('the reasoning preview is one line', () => {
  expect(lastLine('first\nsecond  \n')).toBe('second');
  expect(lastLine('x'.repeat(300), 10)).toBe(`…${'x'.repeat(10)}`);
  expect(lastLine('')).toBe('');
});

test('the height estimate grows with content up to a limit', () => {
  expect(estimateTurnHeight(ended(text('a'.repeat(2_000))))).toBeGreaterThan(estimateTurnHeight(ended(text('a'))));
  expect(estimateTurnHeight(ended(text('a'.repeat(1e6)), text('b\n'.repeat(1e6))))).toBeLessThanOrEqual(6_000);
});
