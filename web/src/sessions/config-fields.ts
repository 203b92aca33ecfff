/** Form fields of a session's configuration schema, in display order. Pure. */

import type { ConfigProperty, ConfigSchema, Json, JsonObject } from '../ahp/index.ts';

export interface ConfigFormField {
  readonly name: string;
  readonly kind: 'choice' | 'switch' | 'number' | 'text';
  readonly property: ConfigProperty;
  /** The value without a choice. */
  readonly value: Json | undefined;
  readonly options: readonly ConfigOption[];
}

export interface ConfigOption {
  readonly value: string;
  readonly label: string;
  readonly description?: string;
}

export interface ConfigFields {
  /** Fields that are always visible. */
  readonly main: readonly ConfigFormField[];
  readonly more: readonly ConfigFormField[];
}

/** For each position, the first property that the host has. */
const MAIN_FIELDS = [['model'], ['permissionMode', 'mode'], ['effort']] as const;

/** Aliases of `permissionMode` for clients that do not know it. */
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
  // A field with a single option is hidden.
  const choosable = fields.filter(
    ({ kind, options, property }) => kind !== 'choice' || property.enumDynamic || options.length > 1,
  );
  const main = MAIN_FIELDS.flatMap((names) => {
    const found = names.flatMap((name) => choosable.find((field) => field.name === name) ?? []);
    return found.slice(0, 1);
  });
  return { main, more: choosable.filter((field) => !main.includes(field)) };
}

/** Parses a typed or chosen value by the schema; undefined leaves it to the host. */
export function parseValue(field: ConfigFormField, text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (field.kind === 'number') return Number.isFinite(Number(trimmed)) ? Number(trimmed) : undefined;
  if (field.kind === 'switch') return trimmed === 'true';
  // Non-string values are matched by their text.
  return field.property.enum?.find((value) => String(value) === trimmed) ?? trimmed;
}

function fieldKind(property: ConfigProperty): ConfigFormField['kind'] | undefined {
  if (property.enum || property.enumDynamic) return 'choice';
  if (property.type === 'boolean') return 'switch';
  if (property.type === 'number' || property.type === 'integer') return 'number';
  // Lists and objects are edited in configuration files.
  return property.type === 'string' ? 'text' : undefined;
}

function enumOptions({ enum: values = [], enumLabels, enumDescriptions }: ConfigProperty): readonly ConfigOption[] {
  return values.map((value, at) => {
    const description = enumDescriptions?.[at];
    return { value: String(value), label: enumLabels?.[at] ?? String(value), ...(description && { description }) };
  });
}
