/** Answers to a tool confirmation, in display order. Pure. */

import type { ConfirmationOption, ToolCallPending, ToolDecision } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export interface ConfirmationChoices {
  /** The option that allows. */
  readonly approve: ConfirmationOption;
  /** The option that denies. */
  readonly deny: ConfirmationOption;
  /** The option that denies with a message. Every host accepts a message. */
  readonly denyWithMessage: ConfirmationOption;
  /** All other options, in the host's groups. */
  readonly others: readonly ConfirmationOption[];
}

/** Labels for hosts without options; the decision then names no option. */
const DEFAULT_LABELS = { approve: strings.confirmation.allow, deny: strings.confirmation.deny } as const;

/** The host's option id for a denial with a message. */
const DENY_WITH_MESSAGE_ID = 'deny-with-feedback';

export function confirmationChoices({ options = [] }: Pick<ToolCallPending, 'options'>): ConfirmationChoices {
  const first = (kind: ConfirmationOption['kind']) =>
    options.find((option) => option.kind === kind && option.id !== DENY_WITH_MESSAGE_ID) ?? {
      id: '',
      label: DEFAULT_LABELS[kind],
      kind,
    };
  const [approve, deny] = [first('approve'), first('deny')];
  const denyWithMessage = options.find((option) => option.id === DENY_WITH_MESSAGE_ID) ?? deny;
  const others = options
    .filter((option) => option !== approve && option !== deny && option !== denyWithMessage)
    .toSorted((one, other) => (one.group ?? 0) - (other.group ?? 0));
  return { approve, deny, denyWithMessage, others };
}

/** The decision of an option. */
export function optionDecision(option: ConfirmationOption, message = ''): ToolDecision {
  const selected = option.id ? { selectedOptionId: option.id } : {};
  if (option.kind === 'approve') return { approved: true, ...selected };
  return { approved: false, reason: 'denied', ...selected, ...(message.trim() && { reasonMessage: message.trim() }) };
}

/** The decision that allows edited input. Rules match the agent's own input, so none is saved. */
export function editedInputDecision(approve: ConfirmationOption, editedToolInput: string): ToolDecision {
  return { approved: true, ...(approve.id && { selectedOptionId: approve.id }), editedToolInput };
}

/** Why edited input is invalid. */
export function validateJsonObject(input: string): string | undefined {
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
    return strings.confirmation.notObject;
  } catch (error) {
    return strings.confirmation.notJson(error instanceof Error ? error.message : String(error));
  }
}
