/** Configuration fields of a new session. */

import { expect, test } from 'vitest';
import type { ConfigProperty, ConfigSchema } from '../src/ahp/index.ts';
import { configFields, parseValue } from '../src/sessions/config-fields.ts';
import { firstMessage } from '../src/sessions/create-session.ts';

function schema(properties: Record<string, Partial<ConfigProperty>>): ConfigSchema {
  const whole = Object.entries(properties).map(([name, property]) => [
    name,
    { type: 'string', title: name, ...property },
  ]);
  return { type: 'object', properties: Object.fromEntries(whole) };
}

const names = (fields: readonly { name: string }[]) => fields.map(({ name }) => name);

test('model, permissions and effort come first, and aliases are hidden', () => {
  const { main, more } = configFields(
    schema({
      autoApprove: { enum: ['a', 'b'] },
      effort: { enum: ['low', 'high'] },
      limitDollars: { type: 'number' },
      mode: { enum: ['a', 'b'] },
      model: { enum: ['x'], enumDynamic: true },
      permissionMode: { enum: ['default', 'plan'], enumLabels: ['Ask first'], default: 'default' },
    }),
    { permissionMode: 'plan' },
  );
  expect(names(main)).toEqual(['model', 'permissionMode', 'effort']);
  expect(names(more)).toEqual(['limitDollars']);
  expect(main[1]).toMatchObject({
    value: 'plan',
    options: [
      { value: 'default', label: 'Ask first' },
      { value: 'plan', label: 'plan' },
    ],
  });
});

test('a host without permission modes shows its mode field', () => {
  const { main, more } = configFields(schema({ mode: { enum: ['a', 'b'] }, autoApprove: { enum: ['a', 'b'] } }), {});
  expect(names(main)).toEqual(['mode']);
  expect(names(more)).toEqual(['autoApprove']);
});

test('read-only and single-value fields are hidden', () => {
  const { main, more } = configFields(
    schema({
      branch: { readOnly: true },
      isolation: { enum: ['folder'] },
      tools: { type: 'array' },
      newer: { type: 'duration' },
      note: {},
      quiet: { type: 'boolean' },
    }),
    {},
  );
  expect(names(main)).toEqual([]);
  expect(more.map(({ name, kind }) => `${name}: ${kind}`)).toEqual(['note: text', 'quiet: switch']);
});

test('typed values are parsed according to the schema', () => {
  const { more } = configFields(
    schema({ limit: { type: 'number' }, level: { type: 'number', enum: [1, 2] }, note: {} }),
    {},
  );
  const [limit, level, note] = more;
  if (!limit || !level || !note) throw new Error('a field is missing');
  expect(parseValue(limit, ' 2.5 ')).toBe(2.5);
  expect(parseValue(limit, 'much')).toBeUndefined();
  expect(parseValue(level, '2')).toBe(2);
  expect(parseValue(note, '')).toBeUndefined();
  expect(parseValue(note, 'text')).toBe('text');
});

test('the first message names the chosen model', () => {
  expect(firstMessage('hello', { model: 'x', effort: 'low' })).toEqual({ text: 'hello', model: { id: 'x' } });
  expect(firstMessage('hello', {})).toEqual({ text: 'hello' });
});
