/** What can be chosen for a session, as its schema says, in the order in which people think of it. */

import type { ConfigProperty, ConfigSchema, Json, JsonObject } from '../ahp/index.ts';

export interface ConfigFormField {
  readonly name: string;
  readonly kind: 'choice' | 'switch' | 'number' | 'text';
  readonly property: ConfigProperty;
  /** What holds if nothing else is chosen. */
  readonly value: Json | undefined;
  readonly options: readonly ConfigOption[];
}

export interface ConfigOption {
  readonly value: string;
  readonly label: string;
  readonly description?: string;
}

export interface ConfigFields {
  /** Those that are asked for at once. */
  readonly main: readonly ConfigFormField[];
  readonly more: readonly ConfigFormField[];
}

/** The first of them that a host has, for each place. */
const MAIN_FIELDS = [['model'], ['permissionMode', 'mode'], ['effort']] as const;

/** Says the same as `permissionMode` in other words, for clients that do not know it. */
const PERMISSION_MODE_ALIASES = ['mode', 'autoApprove'];

export function configFields(schema: ConfigSchema, values: JsonObject): ConfigFields {
  const { properties } = schema;
  const editable = Object.entries(properties).filter(
    ([name, property]) =>
      !property.readOnly && !('permissionMode' in properties && PERMISSION_MODE_ALIASES.includes(name)),
  );
  const fields = editable.flatMap(([name, property]) => {
    const kind = fieldKind(property);
    const value = values[name] ?? property.default;
    return kind ? [{ name, kind, property, value, options: enumOptions(property) }] : [];
  });
  // Where there is one choice there is no question.
  const choosable = fields.filter(
    ({ kind, options, property }) => kind !== 'choice' || property.enumDynamic || options.length > 1,
  );
  const main = MAIN_FIELDS.flatMap((names) => {
    const found = names.flatMap((name) => choosable.find((field) => field.name === name) ?? []);
    return found.slice(0, 1);
  });
  return { main, more: choosable.filter((field) => !main.includes(field)) };
}

/** What is typed or chosen, as the schema wants it; nothing means that it is left to the host. */
export function parseValue(field: ConfigFormField, text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (field.kind === 'number') return Number.isFinite(Number(trimmed)) ? Number(trimmed) : undefined;
  if (field.kind === 'switch') return trimmed === 'true';
  // Values that are no texts are chosen by what they look like.
  return field.property.enum?.find((value) => String(value) === trimmed) ?? trimmed;
}

function fieldKind(property: ConfigProperty): ConfigFormField['kind'] | undefined {
  if (property.enum || property.enumDynamic) return 'choice';
  if (property.type === 'boolean') return 'switch';
  if (property.type === 'number' || property.type === 'integer') return 'number';
  // Lists and objects are for files of configuration.
  return property.type === 'string' ? 'text' : undefined;
}

function enumOptions({ enum: values = [], enumLabels, enumDescriptions }: ConfigProperty): readonly ConfigOption[] {
  return values.map((value, at) => {
    const description = enumDescriptions?.[at];
    return { value: String(value), label: enumLabels?.[at] ?? String(value), ...(description && { description }) };
  });
}
