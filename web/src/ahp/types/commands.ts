/** Requests, notifications and their payloads. Every request names a channel. */

import type { Action, Envelope } from './actions.ts';
import type { AnnotationsState } from './annotations.ts';
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

/** The plan for attachments, from `hostler/planAttachments`. */
export interface AttachmentPlan {
  readonly ok: boolean;
  /** Why the message as a whole cannot be sent. */
  readonly reason?: string;
  /** In the order of the request. */
  readonly files: readonly FilePlan[];
}

export interface FilePlan {
  readonly label: string;
  /** `wouldSend`: only another file blocks the message. */
  readonly decision: 'send' | 'wouldSend' | 'reject';
  readonly code?: string;
  /** Why it is rejected, and what to do. */
  readonly message?: string;
  readonly warnings?: readonly { readonly kind: string; readonly message: string }[];
  readonly contentType?: string;
  readonly bytes?: number;
  readonly width?: number;
  readonly height?: number;
  readonly pages?: number;
}

/** A completion that replaces the text between two UTF-16 offsets. */
export interface CompletionItem {
  readonly insertText: string;
  readonly rangeStart?: number;
  readonly rangeEnd?: number;
  readonly attachment: Attachment;
}

/** A session with search matches, from `hostler/search`. */
export interface SessionSearchResult {
  readonly session: Uri;
  readonly title: string;
  readonly workspace?: string;
  readonly modifiedAtMs: number;
  /** Undefined if the session is listed. */
  readonly listed?: false;
  /** Number of matching turns. */
  readonly matchingTurns: number;
  readonly hits: readonly SearchMatch[];
}

/** A match; without a turn it is in the session's title. */
export interface SearchMatch {
  readonly chat?: Uri;
  readonly turn?: string;
  readonly atMs: number;
  readonly kind: string;
  readonly snippet: string;
  /** Match ranges in UTF-16 units. */
  readonly matches: readonly (readonly [number, number])[];
}

/** A signed-in browser, from `hostler/listBrowserSessions`. */
export interface BrowserSession {
  readonly id: string;
  readonly label: string;
  readonly createdAt: string;
  readonly lastSeenAt: string;
  /** Whether it is this browser. */
  readonly current: boolean;
}

/** A resource grant outside the sessions' directories, granted or waiting. */
export interface Grant {
  readonly id: string;
  readonly uri: Uri;
  readonly write: boolean;
  readonly waiting: boolean;
}

/** One item of a folder's own configuration. */
export interface ConfigurationItem {
  readonly kind: string;
  readonly name: string;
  /** The file that defines it. */
  readonly source: string;
  readonly hash: string;
  /** Why it does not apply even in a trusted folder. */
  readonly blocked?: string;
}

/** Whether a folder's own configuration applies, by `hostler/checkTrust`. */
export interface TrustReport {
  readonly directory: string;
  readonly state: string;
  readonly trustedBy?: string;
  readonly inheritedFrom?: string;
  /** Why the folder cannot be trusted. */
  readonly reason?: string;
  readonly configuration: { readonly fingerprint: string; readonly items: readonly ConfigurationItem[] };
  /** Changes since the folder was trusted. */
  readonly difference?: {
    readonly added: readonly ConfigurationItem[];
    readonly changed: readonly ConfigurationItem[];
    readonly removed: readonly ConfigurationItem[];
  };
}

export type TrustDecision = 'trust' | 'trustSubfolders' | 'restrict';

/** A folder with a trust decision, from `hostler/listTrust`. */
export interface FolderDecision {
  readonly path: string;
  readonly decision: TrustDecision;
  readonly inheritedFrom?: string;
  readonly items: readonly ConfigurationItem[];
}

/** Method → parameters without the channel, and result. */
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
  createResourceWatch: [{ uri: Uri; recursive?: boolean }, { readonly channel: Uri }];
  'hostler/planAttachments': [{ attachments: readonly Attachment[] }, AttachmentPlan];
  'hostler/readBackgroundOutput': [{ id: string }, { readonly output: string; readonly truncated: boolean }];
  'hostler/stopBackgroundWork': [{ id: string }, null];
  'hostler/search': [
    {
      query: string;
      limit?: number;
      offset?: number;
      byTurn?: boolean;
      waitForIndex?: boolean;
      includeUnlisted?: boolean;
    },
    {
      readonly items: readonly SessionSearchResult[];
      readonly nextOffset?: number;
      readonly pendingSessions: number;
      /** Why some sessions could not be searched. */
      readonly indexError?: string;
    },
  ];
  'hostler/tagSession': [{ tag: string | null }, null];
  'hostler/listGrants': [unknown, { readonly items: readonly Grant[] }];
  'hostler/allowGrant': [{ id: string }, unknown];
  'hostler/createSignInLink': [
    { minutes?: number; label?: string },
    { readonly code: string; readonly expiresAt: string; readonly path: string },
  ];
  'hostler/listBrowserSessions': [unknown, { readonly items: readonly BrowserSession[] }];
  'hostler/signOut': [{ id?: string }, unknown];
  'hostler/listTrust': [
    unknown,
    { readonly items: readonly FolderDecision[]; readonly trustedFolders: readonly string[] },
  ];
  'hostler/checkTrust': [{ directory: string; provider?: string }, TrustReport];
  'hostler/setTrust': [
    { directory: string; provider?: string; decision: TrustDecision; fingerprint: string },
    TrustReport,
  ];
  'hostler/removeTrust': [{ directory: string }, { readonly removed: boolean }];
  'hostler/removeImages': [{ images: 'last' | 'all' }, { readonly removed: number }];
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
