/** Tool input, partial JSON and terminal output. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ChatState, Json, ToolCall, Turn } from '../src/ahp/index.ts';
import { parseAnsi, stripAnsi } from '../src/tools/ansi.ts';
import { messageSpans, messageText } from '../src/tools/message-spans.ts';
import { parsePartialJson } from '../src/tools/partial-json.ts';
import { tasksUpToCall } from '../src/tools/task-list.ts';
import { inputSubject, relativePath, toolInputBlocks } from '../src/tools/tool-input.ts';

describe('partial JSON', () => {
  test('is parsed as far as possible', () => {
    const cases: [string, Json | undefined][] = [
      ['', undefined],
      ['{', {}],
      ['{"comm', {}],
      ['{"command":', {}],
      ['{"command":"ls -', { command: 'ls -' }],
      ['{"command":"a\\', { command: 'a' }],
      ['{"command":"a\\\\', { command: 'a\\' }],
      ['{"command":"a\\u00e', { command: 'a' }],
      ['{"command":"\\ud83d', { command: '' }],
      ['{"command":"a\\nb","timeout":12', { command: 'a\nb' }],
      ['{"timeout":12,', { timeout: 12 }],
      ['{"list":[1,2,"thr', { list: [1, 2, 'thr'] }],
      ['{"list":[{"a":tru', { list: [{}] }],
      ['{"a":{"b":[]},"c":null}', { a: { b: [] }, c: null }],
      ['not JSON', undefined],
    ];
    for (const [text, value] of cases) expect(parsePartialJson(text).value, text).toEqual(value);
  });

  test('never throws, and complete JSON parses exactly', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), (value, cut) => {
        const text = JSON.stringify(value);
        expect(parsePartialJson(text)).toEqual({ value: JSON.parse(text), isComplete: true });
        const part = text.slice(0, cut % (text.length + 1));
        if (part !== text && text.startsWith('{')) expect(typeof (parsePartialJson(part).value ?? {})).toBe('object');
      }),
      { numRuns: 1_000 },
    );
  });

  test('yields only the characters present in a string', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(), (text, cut) => {
        const whole = JSON.stringify({ text });
        const { value } = parsePartialJson(whole.slice(0, 9 + (cut % (whole.length - 9))));
        expect(text.startsWith((value as { text: string }).text)).toBe(true);
      }),
    );
  });

  test('stops at the nesting limit', () => {
    expect(() => parsePartialJson('['.repeat(100_000))).not.toThrow();
  });
});

describe('tool input', () => {
  test('of a shell tool is a command', () => {
    expect(
      toolInputBlocks('Bash', { command: 'ls', description: 'List', run_in_background: true, timeout: 5 }),
    ).toEqual([
      { kind: 'code', label: 'Command', text: 'ls', language: 'sh' },
      {
        kind: 'fields',
        fields: [
          { name: 'Run in background', value: 'true' },
          { name: 'Timeout', value: '5' },
        ],
      },
    ]);
  });

  test('of a file tool is a path with its line range', () => {
    const file = (input: Json) => {
      const [block] = toolInputBlocks('Read', input);
      return block?.kind === 'fields' ? block.fields[0]?.value : undefined;
    };
    expect(file({ file_path: '/a.rs' })).toBe('/a.rs');
    expect(file({ file_path: '/a.rs', offset: 10 })).toBe('/a.rs, from line 10');
    expect(file({ file_path: '/a.rs', offset: 10, limit: 5 })).toBe('/a.rs, lines 10 to 14');
    expect(file({ file_path: '/a.rs', limit: 5 })).toBe('/a.rs, lines 1 to 5');
  });

  test('of an edit tool is one change or several', () => {
    const edit = { old_string: 'a', new_string: 'b' };
    expect(toolInputBlocks('Edit', { file_path: '/a', ...edit, replace_all: false })).toEqual([
      { kind: 'fields', fields: [{ name: 'File', value: '/a' }] },
      { kind: 'change', path: '/a', before: 'a', after: 'b' },
    ]);
    expect(toolInputBlocks('MultiEdit', { file_path: '/a', edits: [edit, edit, 7] })).toHaveLength(3);
  });

  test('with todos is a todo list', () => {
    const todos = [
      { content: 'Read', status: 'completed', activeForm: 'Reading' },
      { content: 'Write', status: 'in_progress', activeForm: 'Writing' },
      { content: 'Rest', status: 'pending' },
      'plain',
      7,
    ];
    expect(toolInputBlocks('TodoWrite', { todos })).toEqual([
      {
        kind: 'todos',
        items: [
          { text: 'Read', state: 'done' },
          { text: 'Writing', state: 'active' },
          { text: 'Rest', state: 'open' },
          { text: 'plain', state: 'open' },
        ],
      },
    ]);
  });

  test('of an unknown tool is listed by field', () => {
    expect(toolInputBlocks('Brand', { someThing: [1], off: false, none: null })).toEqual([
      { kind: 'fields', fields: [{ name: 'Some thing', value: '[1]' }] },
    ]);
    expect(toolInputBlocks('Brand', 'text')).toEqual([
      { kind: 'code', label: 'Input', text: 'text', language: 'json' },
    ]);
    expect(toolInputBlocks('Brand', undefined)).toEqual([]);
    const tools = fc.constantFrom('Bash', 'Edit', 'MultiEdit', 'Read', 'TodoWrite', 'ExitPlanMode', 'Brand');
    const names = fc.constantFrom('command', 'file_path', 'edits', 'todos', 'old_string', 'offset', 'other');
    fc.assert(
      fc.property(tools, fc.dictionary(names, fc.jsonValue()), (tool, input) => {
        expect(() => toolInputBlocks(tool, input as Json)).not.toThrow();
      }),
    );
  });

  test('has a subject before it is complete', () => {
    expect(inputSubject(parsePartialJson('{"file_path":"/src/ma').value)).toBe('/src/ma');
    expect(inputSubject(parsePartialJson('{"content":"x').value)).toBeUndefined();
  });

  test('shows paths relative to the working directory', () => {
    expect(relativePath('/home/ada/project/src/a.rs', '/home/ada/project')).toBe('src/a.rs');
    expect(relativePath('/home/ada/projects/a.rs', '/home/ada/project')).toBe('/home/ada/projects/a.rs');
    expect(relativePath('/a', undefined)).toBe('/a');
  });
});

describe('terminal output', () => {
  test('keeps colors and drops other sequences', () => {
    expect(parseAnsi('\x1b[31mred\x1b[0m plain \x1b[1;92mgood\x1b[22m\x1b[39m.')).toEqual([
      { text: 'red', color: 'red' },
      { text: ' plain ' },
      { text: 'good', color: 'green', isBold: true },
      { text: '.', isBold: false, isDim: false },
    ]);
    expect(stripAnsi('\x1b]0;title\x07a\x1b[2Kb\x1b[38;2;1;2;3mc\x1b[38;5;9md\x08')).toBe('abcd');
  });

  test('applies carriage returns', () => {
    expect(stripAnsi('10%\r50%\r100%\ndone\r\n')).toBe('100%\ndone\n');
  });

  test('contains no control characters', () => {
    const unit = fc.constantFrom('\x1b', '[', ']', 'm', '3', '1', ';', '\r', '\n', 'a', '\x07', '\x00', 'P', '\\');
    fc.assert(
      fc.property(fc.string({ unit }), (text) => {
        expect(stripAnsi(text)).not.toMatch(/(?![\t\n])\p{Cc}/u);
      }),
    );
  });
});

test('host messages split into text and code spans', () => {
  expect(messageSpans({ markdown: 'Ran `ls -la` twice' })).toEqual([
    { text: 'Ran ', isCode: false },
    { text: 'ls -la', isCode: true },
    { text: ' twice', isCode: false },
  ]);
  expect(messageText('a `b')).toBe('a `b');
  expect(messageText(undefined)).toBe('');
});

test('single task calls combine into a list', () => {
  const call = (id: string, toolName: string, input: Json, text: string): ToolCall => ({
    toolCallId: id,
    toolName,
    displayName: toolName,
    invocationMessage: '',
    toolInput: JSON.stringify(input),
    status: 'completed',
    confirmed: 'not-needed',
    success: true,
    pastTenseMessage: '',
    content: [{ type: 'text', text }],
  });
  const calls = [
    call('1', 'TaskCreate', { subject: 'One' }, 'Task #1 created successfully: One'),
    call('2', 'TaskCreate', { subject: 'Two' }, 'Task #2 created successfully: Two'),
    call('3', 'TaskUpdate', { taskId: '1', status: 'in_progress' }, ''),
    call('4', 'TaskUpdate', { taskId: '1', status: 'completed' }, ''),
    call('5', 'TaskUpdate', { taskId: '9', status: 'in_progress' }, ''),
    call('6', 'TaskUpdate', { taskId: '2', status: 'deleted' }, ''),
  ];
  const responseParts = calls.map((toolCall) => ({ kind: 'toolCall', toolCall }) as const);
  const message = { text: '', origin: { kind: 'user' } } as const;
  const turn: Turn = { id: 't', message, responseParts, state: 'complete' };
  const state: ChatState = { resource: '', title: '', status: 1, modifiedAt: '', turns: [turn] };
  const list = (id: string) => tasksUpToCall(state, id).map(({ text, state: how }) => `${text} ${how}`);
  expect(list('3')).toEqual(['One active', 'Two open']);
  expect(list('5')).toEqual(['One done', 'Two open', 'Task 9 active']);
  expect(list('6')).toEqual(['One done', 'Task 9 active']);
});
