/** A client of the Agent Host Protocol, without dependencies. */

export { BACKOFF, type Backoff, delay } from './backoff.ts';
export type { Extent, View } from './channel.ts';
export { Client, type ClientOptions, type Held, type RequestOptions, type Return } from './client.ts';
export type { LinkState } from './connection.ts';
export { browser, type Environment, newId, type Socket } from './environment.ts';
export * from './errors.ts';
export type { Readable } from './observable.ts';
export { Optimistic, type Wish } from './optimistic-state.ts';
export * from './reducers/index.ts';
export { Chat, type Verdict, type Words } from './stores/chat.ts';
export { Host } from './stores/host.ts';
export { Session } from './stores/session.ts';
export { Sessions, type SessionsView } from './stores/sessions.ts';
export * from './types/index.ts';
