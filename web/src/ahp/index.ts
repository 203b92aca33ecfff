/** Public API of the AHP client. The client has no dependencies and imports nothing from the page. */

export { type Backoff, backoffDelay, DEFAULT_BACKOFF } from './backoff.ts';
export type { ChannelView, ViewOptions } from './channel.ts';
export {
  type ChannelHandle,
  Client,
  type ClientOptions,
  type ReconnectOutcome,
  type RequestOptions,
} from './client.ts';
export type { ConnectionState } from './connection.ts';
export { browserEnvironment, type Environment, newId, type Socket } from './environment.ts';
export * from './errors.ts';
export type { Readable } from './observable.ts';
export { OptimisticState, type PendingAction } from './optimistic-state.ts';
export * from './reducers/index.ts';
export { Chat, type ToolDecision, type UserMessage } from './stores/chat.ts';
export { Host } from './stores/host.ts';
export { Session } from './stores/session.ts';
export { SessionListStore, type SessionListView } from './stores/sessions.ts';
export * from './types/index.ts';
