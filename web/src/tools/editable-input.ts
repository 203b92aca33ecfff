/** A call's input as it is edited: a command is a command, and everything else is JSON. */

import { complaintAbout } from './confirmation-options.ts';
import { readJson } from './partial-json.ts';
import { isObject } from './tool-input.ts';

export interface Editable {
  readonly label: string;
  /** What stands in the field at first. */
  readonly text: string;
  /** Why what stands there cannot be sent. */
  complaint(text: string): string | undefined;
  /** The whole input, as JSON. */
  input(text: string): string;
}

export function editable(toolInput: string): Editable {
  const { value, isComplete } = readJson(toolInput);
  if (isComplete && isObject(value) && typeof value.command === 'string') {
    return {
      label: 'Command',
      text: value.command,
      complaint: (text) => (text.trim() ? undefined : 'There is no command.'),
      input: (text) => JSON.stringify({ ...value, command: text }),
    };
  }
  return {
    label: 'Input, as JSON',
    text: isComplete ? JSON.stringify(value, null, 2) : toolInput,
    complaint: complaintAbout,
    input: (text) => text,
  };
}
