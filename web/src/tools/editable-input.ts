/** Tool input as editable text: a command as text, everything else as JSON. Pure. */

import { strings } from '../strings.ts';
import { validateJsonObject } from './confirmation-options.ts';
import { parsePartialJson } from './partial-json.ts';
import { isObject } from './tool-input.ts';

export interface EditableInput {
  readonly label: string;
  /** The initial text. */
  readonly text: string;
  /** Validates the text; returns an error. */
  validate(text: string): string | undefined;
  /** The whole input as JSON. */
  toJson(text: string): string;
}

export function createEditableInput(toolInput: string): EditableInput {
  const { value, isComplete } = parsePartialJson(toolInput);
  if (isComplete && isObject(value) && typeof value.command === 'string') {
    return {
      label: strings.toolInput.command,
      text: value.command,
      validate: (text) => (text.trim() ? undefined : strings.confirmation.noCommand),
      toJson: (text) => JSON.stringify({ ...value, command: text }),
    };
  }
  return {
    label: strings.toolInput.inputJson,
    text: isComplete ? JSON.stringify(value, null, 2) : toolInput,
    validate: validateJsonObject,
    toJson: (text) => text,
  };
}
