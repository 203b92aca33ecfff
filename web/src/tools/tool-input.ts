/** Tool input as display blocks: commands as code, files as paths, edits as changes, and other fields by name. Pure. */

import type { Json, JsonObject } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import { parseTodos, type TodoItem } from './task-list.ts';

/** Maximum length of inline JSON. */
const MAX_INLINE_JSON_LENGTH = 60;

export interface InputField {
  readonly name: string;
  readonly value: string;
}

export type InputBlock =
  | { readonly kind: 'code'; readonly label: string; readonly text: string; readonly language?: string }
  /** A change of a file range. */
  | { readonly kind: 'change'; readonly path: string; readonly before: string; readonly after: string }
  | { readonly kind: 'markdown'; readonly label: string; readonly text: string }
  | { readonly kind: 'todos'; readonly items: readonly TodoItem[] }
  | { readonly kind: 'fields'; readonly fields: readonly InputField[] };

/** The blocks of an input, in display order. */
export function toolInputBlocks(toolName: string, input: Json | undefined): readonly InputBlock[] {
  if (input === undefined) return [];
  if (!isObject(input))
    return [{ kind: 'code', label: strings.toolInput.input, text: valueText(input), language: 'json' }];
  const taken = new Set<string>();
  const take = (name: string): string | undefined => {
    const value = input[name];
    if (typeof value !== 'string') return undefined;
    taken.add(name);
    return value;
  };
  const blocks = knownBlocks(toolName, input, take, taken);
  const fields = Object.entries(input).flatMap(([name, value]) =>
    taken.has(name) || value === undefined || isDefault(value)
      ? []
      : [{ name: fieldLabel(name), value: valueText(value) }],
  );
  return fields.length > 0 ? [...blocks, { kind: 'fields', fields }] : blocks;
}

/** The subject of a call, available before its input is complete. */
export function inputSubject(input: Json | undefined): string | undefined {
  if (!isObject(input)) return undefined;
  const names = ['command', 'file_path', 'notebook_path', 'path', 'pattern', 'query', 'url', 'description', 'skill'];
  for (const name of names) {
    const value = input[name];
    if (typeof value === 'string' && value.trim()) return value.trim().split('\n')[0];
  }
  return undefined;
}

/** A path relative to the working directory. */
export function relativePath(path: string, directory: string | undefined): string {
  if (!directory) return path;
  const base = directory.endsWith('/') ? directory : `${directory}/`;
  return path.startsWith(base) ? path.slice(base.length) : path;
}

type TakeField = (name: string) => string | undefined;

function knownBlocks(toolName: string, input: JsonObject, take: TakeField, taken: Set<string>): readonly InputBlock[] {
  if (toolName === 'ExitPlanMode') return markdownBlock(strings.toolInput.plan, take('plan'));
  const todos = parseTodos(input);
  if (todos) {
    taken.add('todos');
    return [{ kind: 'todos', items: todos }];
  }
  const path = take('file_path') ?? take('notebook_path');
  if (path !== undefined) return fileBlocks(path, input, take, taken);
  const command = take('command');
  if (command !== undefined) {
    // The summary shows the description.
    taken.add('description');
    return [{ kind: 'code', label: strings.toolInput.command, text: command, language: 'sh' }];
  }
  const prompt = take('prompt');
  if (prompt !== undefined) return markdownBlock(strings.toolInput.prompt, prompt);
  return [];
}

function fileBlocks(path: string, input: JsonObject, take: TakeField, taken: Set<string>): readonly InputBlock[] {
  const place: InputBlock = {
    kind: 'fields',
    fields: [{ name: strings.toolInput.file, value: path + lineRange(input, taken) }],
  };
  const [before, after] = [take('old_string'), take('new_string')];
  if (before !== undefined || after !== undefined)
    return [place, { kind: 'change', path, before: before ?? '', after: after ?? '' }];
  const { edits } = input;
  if (Array.isArray(edits)) {
    taken.add('edits');
    const changes = (edits as readonly Json[]).filter(isObject).map(
      (edit): InputBlock => ({
        kind: 'change',
        path,
        before: typeof edit.old_string === 'string' ? edit.old_string : '',
        after: typeof edit.new_string === 'string' ? edit.new_string : '',
      }),
    );
    return [place, ...changes];
  }
  const content = take('content') ?? take('new_source');
  return content === undefined
    ? [place]
    : [place, { kind: 'code', label: strings.toolInput.contents, text: content, language: path }];
}

/** The line range of a partial read. */
function lineRange(input: JsonObject, taken: Set<string>): string {
  const { offset, limit } = input;
  const from = typeof offset === 'number' ? Math.max(1, offset) : undefined;
  const length = typeof limit === 'number' ? limit : undefined;
  if (from !== undefined) taken.add('offset');
  if (length !== undefined) taken.add('limit');
  if (length !== undefined) return strings.toolInput.lines(from ?? 1, (from ?? 1) + length - 1);
  return from === undefined ? '' : strings.toolInput.fromLine(from);
}

function markdownBlock(label: string, value: string | undefined): readonly InputBlock[] {
  return value === undefined ? [] : [{ kind: 'markdown', label, text: value }];
}

/** Values without information. */
function isDefault(value: Json): boolean {
  return value === null || value === false || value === '';
}

function valueText(value: Json): string {
  if (typeof value === 'string') return value;
  const short = JSON.stringify(value);
  return short.length <= MAX_INLINE_JSON_LENGTH ? short : JSON.stringify(value, null, 2);
}

/** Converts `run_in_background` or `runInBackground` to a label. */
function fieldLabel(name: string): string {
  const spaced = name.replace(/_/g, ' ').replace(/([a-z])([A-Z])/g, (_, one, other) => `${one} ${other.toLowerCase()}`);
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
