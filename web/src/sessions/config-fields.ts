/** What can be chosen for a session, as its schema says, in the order in which people think of it. */

import type { ConfigProperty, ConfigSchema, Json, JsonObject } from '../ahp/index.ts';

export interface Field {
  readonly name: string;
  readonly kind: 'choice' | 'switch' | 'number' | 'text';
  readonly property: ConfigProperty;
  /** What holds if nothing else is chosen. */
  readonly value: Json | undefined;
  readonly options: readonly Option[];
}

export interface Option {
  readonly value: string;
  readonly label: string;
  readonly description?: string;
}

export interface Fields {
  /** Those that are asked for at once. */
  readonly main: readonly Field[];
  readonly more: readonly Field[];
}

/** The first of them that a host has, for each place. */
const MAIN = [['model'], ['permissionMode', 'mode'], ['effort']] as const;

/** Says the same as `permissionMode` in other words, for clients that do not know it. */
const SAME = ['mode', 'autoApprove'];

export function fieldsOf(schema: ConfigSchema, values: JsonObject): Fields {
  const { properties } = schema;
  const asked = Object.entries(properties).filter(
    ([name, property]) => !property.readOnly && !('permissionMode' in properties && SAME.includes(name)),
  );
  const fields = asked.flatMap(([name, property]) => {
    const kind = kindOf(property);
    const value = values[name] ?? property.default;
    return kind ? [{ name, kind, property, value, options: optionsOf(property) }] : [];
  });
  // Where there is one choice there is no question.
  const open = fields.filter(
    ({ kind, options, property }) => kind !== 'choice' || property.enumDynamic || options.length > 1,
  );
  const main = MAIN.flatMap((names) => {
    const found = names.flatMap((name) => open.find((field) => field.name === name) ?? []);
    return found.slice(0, 1);
  });
  return { main, more: open.filter((field) => !main.includes(field)) };
}

/** What is typed or chosen, as the schema wants it; nothing means that it is left to the host. */
export function chosenValue(field: Field, text: string): Json | undefined {
  const wanted = text.trim();
  if (wanted === '') return undefined;
  if (field.kind === 'number') return Number.isFinite(Number(wanted)) ? Number(wanted) : undefined;
  if (field.kind === 'switch') return wanted === 'true';
  // Values that are no texts are chosen by what they look like.
  return field.property.enum?.find((value) => String(value) === wanted) ?? wanted;
}

function kindOf(property: ConfigProperty): Field['kind'] | undefined {
  if (property.enum || property.enumDynamic) return 'choice';
  if (property.type === 'boolean') return 'switch';
  if (property.type === 'number' || property.type === 'integer') return 'number';
  // Lists and objects are for files of configuration.
  return property.type === 'string' ? 'text' : undefined;
}

function optionsOf({ enum: values = [], enumLabels, enumDescriptions }: ConfigProperty): readonly Option[] {
  return values.map((value, at) => {
    const description = enumDescriptions?.[at];
    return { value: String(value), label: enumLabels?.[at] ?? String(value), ...(description && { description }) };
  });
}
