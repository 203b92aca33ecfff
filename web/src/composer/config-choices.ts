/** Options for the next messages: model, mode and effort. Pure. */

import type { AgentInfo, ConfigProperty, ConfigState, Json } from '../ahp/index.ts';
import { strings } from '../strings.ts';

import type { IconName } from '../ui/icons.ts';

export interface ChoiceOption {
  /** Null is the host's default. */
  readonly value: Json;
  readonly label: string;
  readonly detail?: string;
}

export interface ConfigChoice {
  readonly key: string;
  readonly title: string;
  readonly icon: IconName;
  readonly options: readonly ChoiceOption[];
  /** The current value. */
  readonly value: Json;
  readonly label: string;
  /** Whether the default applies. */
  readonly isDefault: boolean;
}

const CHOICE_ICONS: Readonly<Record<string, IconName>> = {
  model: 'agent',
  permissionMode: 'shield',
  mode: 'shield',
  effort: 'reasoning',
};

/** The pickers of a session: mutable properties with several options. */
export function configChoices(config: ConfigState | undefined, agent: AgentInfo | undefined): readonly ConfigChoice[] {
  if (!config) return [];
  const { properties } = config.schema;
  // Hosts have `permissionMode`, `mode` or both; `permissionMode` is more specific.
  const mode = properties.permissionMode ? 'permissionMode' : 'mode';
  return ['model', mode, 'effort'].flatMap((key) => {
    const property = properties[key];
    if (!property?.sessionMutable || property.readOnly) return [];
    const options = key === 'model' ? modelOptions(property, agent) : enumOptions(property);
    if (options.length < 2) return [];
    const defaultValue = property.default ?? null;
    const value = config.values[key] ?? defaultValue;
    const chosen = options.find((option) => option.value === value);
    const label = chosen?.label ?? String(value);
    return [
      {
        key,
        title: property.title,
        icon: CHOICE_ICONS[key] ?? 'settings',
        options,
        value,
        label,
        isDefault: value === defaultValue,
      },
    ];
  });
}

function enumOptions({ enum: values = [], enumLabels, enumDescriptions }: ConfigProperty): readonly ChoiceOption[] {
  return values.map((value, at) => {
    const detail = enumDescriptions?.[at];
    return { value, label: enumLabels?.[at] ?? String(value), ...(detail !== undefined && { detail }) };
  });
}

/** The agent's model list can change after the session's schema was created. */
function modelOptions(property: ConfigProperty, agent: AgentInfo | undefined): readonly ChoiceOption[] {
  const models = (agent?.models ?? []).filter(({ policyState }) => policyState !== 'disabled');
  const known = models.map(({ id, name, maxContextWindow }) => ({
    value: id,
    label: name,
    ...(maxContextWindow !== undefined && { detail: strings.composer.contextTokens(maxContextWindow) }),
  }));
  const defaultOption: ChoiceOption = {
    value: null,
    label: strings.composer.defaultModel,
    detail: strings.composer.defaultModelHint,
  };
  return [defaultOption, ...(known.length > 0 ? known : enumOptions(property))];
}
