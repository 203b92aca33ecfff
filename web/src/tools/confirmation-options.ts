/** What can be answered to a call that waits, in the order in which it is shown. */

import type { ConfirmationOption, ToolCallPending, ToolDecision } from '../ahp/index.ts';

export interface Choices {
  /** What `y` does. */
  readonly approve: ConfirmationOption;
  /** What `n` does. */
  readonly deny: ConfirmationOption;
  /** What denies and says something. Every host takes words. */
  readonly tell: ConfirmationOption;
  /** Everything else that is offered, in the host's groups. */
  readonly others: readonly ConfirmationOption[];
}

/** Where a host offers nothing: no option is named in the answer then. */
const PLAIN = { approve: 'Allow', deny: 'Deny' } as const;

/** The host's own name for a denial with words. */
const TELL = 'deny-tell';

export function choicesOf({ options = [] }: Pick<ToolCallPending, 'options'>): Choices {
  const first = (kind: ConfirmationOption['kind']) =>
    options.find((option) => option.kind === kind && option.id !== TELL) ?? { id: '', label: PLAIN[kind], kind };
  const [approve, deny] = [first('approve'), first('deny')];
  const tell = options.find((option) => option.id === TELL) ?? deny;
  const others = options
    .filter((option) => option !== approve && option !== deny && option !== tell)
    .toSorted((one, other) => (one.group ?? 0) - (other.group ?? 0));
  return { approve, deny, tell, others };
}

/** The answer that an option stands for. */
export function verdictOf(option: ConfirmationOption, words = ''): ToolDecision {
  const selected = option.id ? { selectedOptionId: option.id } : {};
  if (option.kind === 'approve') return { approved: true, ...selected };
  return { approved: false, reason: 'denied', ...selected, ...(words.trim() && { reasonMessage: words.trim() }) };
}

/** The answer that allows a call with another input. Rules are about the agent's own input, so none goes with it. */
export function editedVerdict(approve: ConfirmationOption, editedToolInput: string): ToolDecision {
  return { approved: true, ...(approve.id && { selectedOptionId: approve.id }), editedToolInput };
}

/** Why an input cannot be sent as it was typed. */
export function complaintAbout(input: string): string | undefined {
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
    return 'The input has to be a JSON object.';
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
