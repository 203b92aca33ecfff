/** Reducer for terminal channels. */

import type { Action, TerminalCommand, TerminalExited, TerminalPart, TerminalState } from '../types/index.ts';
import { omitUndefined } from './objects.ts';

export function reduceTerminal(state: TerminalState, action: Action): TerminalState {
  switch (action.type) {
    case 'terminal/data':
      return { ...state, content: appendOutput(state.content, action.data) };
    case 'terminal/resized':
      return { ...state, cols: action.cols, rows: action.rows };
    case 'terminal/claimed':
      return { ...state, claim: action.claim };
    case 'terminal/titleChanged':
      return { ...state, title: action.title };
    case 'terminal/cwdChanged':
      return { ...state, cwd: action.cwd };
    case 'terminal/exited':
      return { ...state, lifecycle: omitUndefined<TerminalExited>({ status: 'exited', exitCode: action.exitCode }) };
    case 'terminal/cleared':
      return { ...state, content: [] };
    case 'terminal/commandDetectionAvailable':
      return { ...state, supportsCommandDetection: true };
    case 'terminal/commandExecuted': {
      const { commandId, commandLine, timestamp } = action;
      const command: TerminalCommand = {
        type: 'command',
        commandId,
        commandLine,
        timestamp,
        output: '',
        isComplete: false,
      };
      return { ...state, content: [...state.content, command], supportsCommandDetection: true };
    }
    case 'terminal/commandFinished': {
      const at = state.content.findIndex((part) => part.type === 'command' && part.commandId === action.commandId);
      const part = state.content[at];
      if (part?.type !== 'command') return state;
      const { exitCode, durationMs } = action;
      const ended = omitUndefined<TerminalCommand>({ ...part, isComplete: true, exitCode, durationMs });
      return { ...state, content: state.content.with(at, ended) };
    }
    // Input has no effect by itself; the shell echoes it.
    default:
      return state;
  }
}

/** Output belongs to the running command, or to no command. */
function appendOutput(content: readonly TerminalPart[], data: string): readonly TerminalPart[] {
  const last = content.at(-1);
  if (last?.type === 'command' && !last.isComplete) {
    return content.with(-1, { ...last, output: last.output + data });
  }
  if (last?.type === 'unclassified') return content.with(-1, { ...last, value: last.value + data });
  return [...content, { type: 'unclassified', value: data }];
}
