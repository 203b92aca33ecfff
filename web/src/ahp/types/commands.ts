/** Requests, notifications and their payloads. Every request names a channel. */

import type { Action, Envelope } from './actions.ts';
import type { AnnotationsState } from './annotations.ts';
import type { ChangesetOperationResult, ChangesetOperationTarget, ChangesetState } from './changeset.ts';
import type { Attachment, ChatState } from './chat.ts';
import type { ConfigSchema, JsonObject, Meta, ProtectedResource, Uri } from './common.ts';
import type { ResourceWatchState } from './resource.ts';
import type { RootState } from './root.ts';
import type { ActiveClient, SessionState, SessionSummary } from './session.ts';
import type { TerminalClaim, TerminalState } from './terminal.ts';

/** The kinds of channels that this client reduces, each with its state. */
export interface ChannelStates {
  readonly root: RootState;
  readonly session: SessionState;
  readonly chat: ChatState;
  readonly terminal: TerminalState;
  readonly annotations: AnnotationsState;
  readonly resourceWatch: ResourceWatchState;
  readonly changeset: ChangesetState;
}

export type ChannelKind = keyof ChannelStates;
export type AnyChannelState = ChannelStates[ChannelKind];

/** A state and its sequence number. */
export interface Snapshot {
  readonly resource: Uri;
  readonly state: AnyChannelState;
  readonly fromSeq: number;
}

export interface Implementation {
  readonly name: string;
  readonly version?: string;
  readonly title?: string;
}

export interface InitializeResult {
  readonly protocolVersion: string;
  readonly serverSeq: number;
  readonly snapshots: readonly Snapshot[];
  readonly serverInfo?: Implementation;
  readonly defaultDirectory?: Uri;
  readonly completionTriggerCharacters?: readonly string[];
  readonly terminalCommandPrefix?: string;
  readonly _meta?: Meta;
}

export type ReconnectResult =
  | { readonly type: 'replay'; readonly actions: readonly Envelope[]; readonly missing: readonly Uri[] }
  | { readonly type: 'snapshot'; readonly snapshots: readonly Snapshot[] };

type Encoding = 'base64' | 'utf-8';

/** A completion that replaces the text between two UTF-16 offsets. */
export interface CompletionItem {
  readonly insertText: string;
  readonly rangeStart?: number;
  readonly rangeEnd?: number;
  readonly attachment: Attachment;
}

/** Method → parameters without the channel, and result. A host's own methods are added by declaration merging. */
export interface Commands {
  initialize: [
    {
      protocolVersions: readonly string[];
      clientId: string;
      clientInfo?: Implementation;
      initialSubscriptions?: readonly Uri[];
    },
    InitializeResult,
  ];
  reconnect: [{ clientId: string; lastSeenServerSeq: number; subscriptions: readonly Uri[] }, ReconnectResult];
  ping: [unknown, null];
  subscribe: [
    { view?: { readonly turns?: number }; delivery?: { readonly maxLatencyMs?: number } },
    { readonly snapshot?: Snapshot },
  ];
  listSessions: [
    { limit?: number; cursor?: string },
    { readonly items: readonly SessionSummary[]; readonly nextCursor?: string },
  ];
  createSession: [
    {
      provider?: string;
      workingDirectories?: readonly Uri[];
      config?: JsonObject;
      activeClient?: ActiveClient;
      progressToken?: string;
    },
    null,
  ];
  disposeSession: [unknown, null];
  fetchTurns: [{ cursor?: string }, unknown];
  completions: [{ kind: 'userMessage'; text: string; offset: number }, { readonly items: readonly CompletionItem[] }];
  resolveSessionConfig: [
    { provider?: string; workingDirectory?: Uri; config?: JsonObject },
    { readonly schema: ConfigSchema; readonly values: JsonObject },
  ];
  sessionConfigCompletions: [
    { provider?: string; workingDirectory?: Uri; config?: JsonObject; property: string; query?: string },
    { readonly items: readonly { readonly value: string; readonly label: string; readonly description?: string }[] },
  ];
  authenticate: [{ resource: string; token: string; scopes?: readonly string[]; expiresIn?: number }, unknown];
  createTerminal: [{ claim: TerminalClaim; name?: string; cwd?: Uri; cols?: number; rows?: number }, null];
  disposeTerminal: [unknown, null];
  resourceRead: [
    { uri: Uri; encoding?: Encoding },
    { readonly data: string; readonly encoding: Encoding; readonly contentType?: string },
  ];
  resourceList: [
    { uri: Uri },
    { readonly entries: readonly { readonly name: string; readonly type: 'file' | 'directory' }[] },
  ];
  resourceResolve: [
    { uri: Uri; followSymlinks?: boolean },
    {
      readonly uri: Uri;
      readonly type: string;
      readonly size?: number;
      readonly mtime?: string;
      readonly contentType?: string;
      readonly etag?: string;
    },
  ];
  resourceRequest: [{ uri: Uri; read?: boolean; write?: boolean }, unknown];
  invokeChangesetOperation: [{ operationId: string; target?: ChangesetOperationTarget }, ChangesetOperationResult];
  createResourceWatch: [{ uri: Uri; recursive?: boolean }, { readonly channel: Uri }];
}

export type CommandMethod = keyof Commands;
export type CommandParams<M extends CommandMethod> = { channel: Uri } & Commands[M][0];
export type CommandResult<M extends CommandMethod> = Commands[M][1];

/** Notifications of the host beside `action`. They are not repeated after a reconnect. */
export interface HostNotifications {
  action: Envelope;
  'root/sessionAdded': { readonly summary: SessionSummary };
  'root/sessionRemoved': { readonly session: Uri };
  'root/sessionSummaryChanged': { readonly session: Uri; readonly changes: Partial<SessionSummary> };
  'root/progress': {
    readonly progressToken: string;
    readonly progress: number;
    readonly total?: number;
    readonly message?: string;
  };
  'auth/required': { readonly resource: ProtectedResource; readonly reason?: string };
}

/** Notifications of the client. */
export interface ClientNotifications {
  dispatchAction: { channel: Uri; clientSeq: number; action: Action };
  unsubscribe: { channel: Uri };
}

/** Error codes of AHP beside those of JSON-RPC. */
export const ErrorCode = {
  parseError: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  sessionNotFound: -32001,
  providerNotFound: -32002,
  sessionExists: -32003,
  unsupportedVersion: -32005,
  authRequired: -32007,
  notFound: -32008,
  permissionDenied: -32009,
  alreadyExists: -32010,
  conflict: -32011,
} as const;
