/** A session: one or more chats about one working directory. */

import type { Changeset } from './changeset.ts';
import type { ChatInputRequest } from './chat.ts';
import type { ChangesSummary, ConfigState, ErrorInfo, JsonObject, Meta, Uri } from './common.ts';
import type { Customization } from './customization.ts';
import type { ToolCallAuthRequired, ToolCallPending, ToolCallPendingResult, ToolCallRunning } from './toolcall.ts';

interface SessionMetadata {
  readonly provider: string;
  readonly title: string;
  readonly status: number;
  readonly activity?: string;
  readonly origin?: JsonObject;
  readonly project?: { readonly uri: Uri; readonly displayName: string };
  /** The first one is where the agent works. */
  readonly workingDirectories?: readonly Uri[];
  readonly annotations?: { readonly resource: Uri; readonly annotationCount: number; readonly entryCount: number };
}

export interface SessionState extends SessionMetadata {
  readonly lifecycle: 'creating' | 'ready' | 'failed';
  readonly creationError?: ErrorInfo;
  readonly serverTools?: readonly ToolDefinition[];
  readonly activeClients: readonly ActiveClient[];
  readonly chats: readonly ChatSummary[];
  readonly defaultChat?: Uri;
  readonly config?: ConfigState;
  readonly customizations?: readonly Customization[];
  readonly changesets?: readonly Changeset[];
  readonly inputNeeded?: readonly SessionInputRequest[];
  readonly _meta?: Meta;
}

/** A session's summary in the list. */
export interface SessionSummary extends SessionMetadata {
  readonly resource: Uri;
  readonly createdAt: string;
  readonly modifiedAt: string;
  readonly changes?: ChangesSummary;
  readonly chats?: readonly SessionChatSummary[];
  readonly defaultChat?: Uri;
  readonly _meta?: Meta;
}

export interface SessionChatSummary {
  readonly resource: Uri;
  readonly title: string;
  readonly origin?: ChatOrigin;
  readonly interactivity?: ChatInteractivity;
  readonly status?: number;
  readonly changes?: ChangesSummary;
}

/** A chat's summary in its session. */
export interface ChatSummary {
  readonly resource: Uri;
  readonly title: string;
  readonly status: number;
  readonly activity?: string;
  readonly modifiedAt: string;
  readonly changes?: ChangesSummary;
  readonly origin?: ChatOrigin;
  readonly movable?: boolean;
  readonly interactivity?: ChatInteractivity;
  readonly workingDirectories?: readonly Uri[];
}

export type ChatInteractivity = 'full' | 'read-only' | 'hidden';

export type ChatOrigin =
  | { readonly kind: 'user' }
  | { readonly kind: 'fork'; readonly chat: Uri; readonly turnId: string }
  | {
      readonly kind: 'sideChat';
      readonly chat: Uri;
      readonly turnId: string;
      readonly selection?: { readonly text: string; readonly responsePartId?: string };
    }
  | { readonly kind: 'tool'; readonly chat: Uri; readonly toolCallId: string };

export interface ActiveClient {
  readonly clientId: string;
  readonly displayName?: string;
  readonly tools: readonly ToolDefinition[];
  readonly customizations?: readonly JsonObject[];
}

export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly _meta?: Meta;
}

/** A pending request in one of the chats. It is answered on the chat's channel. */
export type SessionInputRequest =
  | { readonly kind: 'chatInput'; readonly id: string; readonly chat: Uri; readonly request: ChatInputRequest }
  | {
      readonly kind: 'toolConfirmation';
      readonly id: string;
      readonly chat: Uri;
      readonly turnId: string;
      readonly toolCall: ToolCallPending | ToolCallPendingResult;
    }
  | {
      readonly kind: 'toolClientExecution';
      readonly id: string;
      readonly chat: Uri;
      readonly turnId: string;
      readonly clientId: string;
      readonly toolCall: ToolCallRunning;
    }
  | {
      readonly kind: 'toolAuthentication';
      readonly id: string;
      readonly chat: Uri;
      readonly turnId: string;
      readonly toolCall: ToolCallAuthRequired;
    };
