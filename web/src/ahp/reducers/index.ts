/**
 * Pure reducers from a state and an action to the next state. They never mutate a state and return the same object when
 * nothing changes, so that `===` detects changes. They match the host's reducers and share their fixtures.
 */

import type { Action, ChannelKind, ChannelStates } from '../types/index.ts';
import { reduceAnnotations } from './annotations.ts';
import { reduceChangeset } from './changeset.ts';
import { reduceChat } from './chat.ts';
import { reduceRoot } from './root.ts';
import { reduceSession } from './session.ts';
import { reduceTerminal } from './terminal.ts';

export { reduceAnnotations, reduceChangeset, reduceChat, reduceRoot, reduceSession, reduceTerminal };

export type Reducer<S> = (state: S, action: Action) => S;

export const reducers: { readonly [K in ChannelKind]: Reducer<ChannelStates[K]> } = {
  root: reduceRoot,
  session: reduceSession,
  chat: reduceChat,
  terminal: reduceTerminal,
  annotations: reduceAnnotations,
  changeset: reduceChangeset,
  // Watch events are carried by the action alone.
  resourceWatch: (state) => state,
};
