/** Reducer for the root channel. */

import type { Action, ConfigState, JsonObject, RootState } from '../types/index.ts';

export function reduceRoot(state: RootState, action: Action): RootState {
  switch (action.type) {
    case 'root/agentsChanged':
      return { ...state, agents: action.agents };
    case 'root/activeSessionsChanged':
      return { ...state, activeSessions: action.activeSessions };
    case 'root/terminalsChanged':
      return { ...state, terminals: action.terminals };
    case 'root/configChanged':
      return state.config ? { ...state, config: mergeConfig(state.config, action) } : state;
    default:
      return state;
  }
}

/** Merges or replaces configuration values. */
export function mergeConfig(state: ConfigState, change: { config: JsonObject; replace?: boolean }): ConfigState {
  return { ...state, values: change.replace ? change.config : { ...state.values, ...change.config } };
}
