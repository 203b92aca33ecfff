/**
 * Pure functions from a state and an action to the next state. A state is never changed in place, and one that an action
 * does not move is returned as it is, so that `===` tells whether something happened. They follow the host's own reducers
 * and are checked by the same fixtures.
 */

import type { Action, ChannelKind, ChannelStates } from '../types/index.ts';
import { reduceAnnotations } from './annotations.ts';
import { reduceChat } from './chat.ts';
import { reduceRoot } from './root.ts';
import { reduceSession } from './session.ts';
import { reduceTerminal } from './terminal.ts';

export { reduceAnnotations, reduceChat, reduceRoot, reduceSession, reduceTerminal };

export type Reducer<S> = (state: S, action: Action) => S;

export const reducers: { readonly [K in ChannelKind]: Reducer<ChannelStates[K]> } = {
  root: reduceRoot,
  session: reduceSession,
  chat: reduceChat,
  terminal: reduceTerminal,
  annotations: reduceAnnotations,
  // What happens to a watched file is told by the action alone.
  resourceWatch: (state) => state,
};
