/** What can be answered to a call that waits, in the order in which it is shown. */

import type { ConfirmationOption, ToolCallPending, ToolDecision } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export interface ConfirmationChoices {
  /** What `y` does. */
  readonly approve: ConfirmationOption;
  /** What `n` does. */
  readonly deny: ConfirmationOption;
  /** What denies and says something. Every host takes words. */
  readonly denyWithMessage: ConfirmationOption;
  /** Everything else that is offered, in the host's groups. */
  readonly others: readonly ConfirmationOption[];
}

/** Where a host offers nothing: no option is named in the answer then. */
const DEFAULT_LABELS = { approve: strings.confirmation.allow, deny: strings.confirmation.deny } as const;

/** The host's own name for a denial with words. */
const DENY_WITH_MESSAGE_ID = 'deny-tell';

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

/** The answer that an option stands for. */
export function optionDecision(option: ConfirmationOption, message = ''): ToolDecision {
  const selected = option.id ? { selectedOptionId: option.id } : {};
  if (option.kind === 'approve') return { approved: true, ...selected };
  return { approved: false, reason: 'denied', ...selected, ...(message.trim() && { reasonMessage: message.trim() }) };
}

/** The answer that allows a call with another input. Rules are about the agent's own input, so none goes with it. */
export function editedInputDecision(approve: ConfirmationOption, editedToolInput: string): ToolDecision {
  return { approved: true, ...(approve.id && { selectedOptionId: approve.id }), editedToolInput };
}

/** Why an input cannot be sent as it was typed. */
export function validateJsonObject(input: string): string | undefined {
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
    return strings.confirmation.notObject;
  } catch (error) {
    return strings.confirmation.notJson(error instanceof Error ? error.message : String(error));
  }
}
