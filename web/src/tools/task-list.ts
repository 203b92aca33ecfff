/** To-do lists of the agent, from whole lists (`TodoWrite`) or single task calls. Pure. */

import type { ChatState, Json, JsonObject, ToolCall } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import { parsePartialJson } from './partial-json.ts';

export interface TodoItem {
  readonly id?: string;
  readonly text: string;
  readonly state: 'open' | 'active' | 'done';
}

const TASK_TOOLS = new Set(['TaskCreate', 'TaskUpdate', 'TaskList', 'TaskGet']);

export function isTaskCall(call: ToolCall): boolean {
  return TASK_TOOLS.has(call.toolName);
}

/** The to-do list of an input, if it has one. */
export function parseTodos(input: JsonObject): readonly TodoItem[] | undefined {
  const { todos } = input;
  if (!Array.isArray(todos)) return undefined;
  return (todos as readonly Json[]).flatMap((todo): TodoItem[] => {
    if (typeof todo === 'string') return [{ text: todo, state: 'open' }];
    if (typeof todo !== 'object' || todo === null || Array.isArray(todo)) return [];
    const { content, activeForm, status } = todo as JsonObject;
    const state = todoState(status);
    const text = state === 'active' && typeof activeForm === 'string' ? activeForm : content;
    return typeof text === 'string' ? [{ text, state }] : [];
  });
}

/** Progress of a list as text. */
export function todoProgress(items: readonly TodoItem[]): string {
  return strings.toolCalls.todoProgress(items.filter(({ state }) => state === 'done').length, items.length);
}

/** The task list after a call, computed from the loaded turns. */
export function tasksUpToCall(state: ChatState, toolCallId: string): readonly TodoItem[] {
  const tasks = new Map<string, TodoItem>();
  const turns = [...state.turns, ...(state.activeTurn ? [state.activeTurn] : [])];
  for (const turn of turns) {
    for (const part of turn.responseParts) {
      if (part.kind !== 'toolCall') continue;
      applyTaskCall(tasks, part.toolCall);
      if (part.toolCall.toolCallId === toolCallId) return [...tasks.values()];
    }
  }
  return [...tasks.values()];
}

function applyTaskCall(tasks: Map<string, TodoItem>, call: ToolCall): void {
  if (call.status !== 'completed' || !call.success || !isTaskCall(call)) return;
  if (typeof call.toolInput !== 'string') return;
  const input = parsePartialJson(call.toolInput).value as JsonObject | undefined;
  const output = call.content?.find((content) => content.type === 'text')?.text ?? '';
  if (call.toolName === 'TaskCreate' && typeof input?.subject === 'string') {
    const id = /#(\w+)/.exec(output)?.[1] ?? `${tasks.size + 1}`;
    tasks.set(id, { id, text: input.subject, state: 'open' });
  }
  if (call.toolName === 'TaskUpdate' && typeof input?.taskId === 'string') {
    const id = input.taskId;
    if (input.status === 'deleted') tasks.delete(id);
    else {
      const known = tasks.get(id);
      const text = typeof input.subject === 'string' ? input.subject : (known?.text ?? strings.toolCalls.task(id));
      tasks.set(id, {
        id,
        text,
        state: input.status === undefined ? (known?.state ?? 'open') : todoState(input.status),
      });
    }
  }
}

function todoState(status: Json | undefined): TodoItem['state'] {
  if (status === 'completed') return 'done';
  return status === 'in_progress' ? 'active' : 'open';
}
