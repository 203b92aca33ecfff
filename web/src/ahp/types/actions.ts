/** Actions and the envelopes in which the host publishes them. */

import type { Annotation, AnnotationEntry, AnnotationOrigin } from './annotations.ts';
import type {
  Changeset,
  ChangesetFile,
  ChangesetOperation,
  ChangesetOperationStatus,
  ChangesetState,
} from './changeset.ts';
import type {
  Answer,
  BackgroundWork,
  ChatInputRequest,
  ErrorPart,
  InputResponse,
  Message,
  ResponsePart,
  Turn,
  Usage,
} from './chat.ts';
import type { ErrorInfo, FileEdit, JsonObject, Meta, StringOrMarkdown, TextRange, Uri } from './common.ts';
import type { Customization, Enablement, McpAuthRequirement, McpServerState } from './customization.ts';
import type { ResourceChange } from './resource.ts';
import type { AgentInfo } from './root.ts';
import type { ActiveClient, ChatSummary, SessionInputRequest, ToolDefinition } from './session.ts';
import type { TerminalClaim, TerminalInfo } from './terminal.ts';
import type {
  CancellationReason,
  ConfirmationOption,
  ConfirmationReason,
  Contributor,
  RiskAssessment,
  ToolCallResult,
  ToolInput,
  ToolResultContent,
} from './toolcall.ts';

/** An action with its sequence number and origin. With a `rejectionReason` it had no effect. */
export interface Envelope {
  readonly channel: Uri;
  readonly action: Action;
  readonly serverSeq: number;
  readonly origin?: { readonly clientId: string; readonly clientSeq: number };
  readonly rejectionReason?: string;
  readonly _meta?: Meta;
}

type ActionOf<Type extends string, Payload = unknown> = { readonly type: Type } & Readonly<Payload>;
type InTurn = { turnId: string; _meta?: Meta };
type InCall = InTurn & { toolCallId: string };

export type RootAction =
  | ActionOf<'root/agentsChanged', { agents: readonly AgentInfo[] }>
  | ActionOf<'root/activeSessionsChanged', { activeSessions: number }>
  | ActionOf<'root/terminalsChanged', { terminals: readonly TerminalInfo[] }>
  | ActionOf<'root/configChanged', { config: JsonObject; replace?: boolean }>;

export type SessionAction =
  | ActionOf<'session/ready'>
  | ActionOf<'session/creationFailed', { error: ErrorInfo }>
  | ActionOf<'session/chatAdded', { summary: ChatSummary }>
  | ActionOf<'session/chatRemoved', { chat: Uri }>
  | ActionOf<'session/chatUpdated', { chat: Uri; changes: Partial<ChatSummary> }>
  | ActionOf<'session/chatsReordered', { chats: readonly Uri[] }>
  | ActionOf<'session/defaultChatChanged', { defaultChat?: Uri }>
  | ActionOf<'session/titleChanged', { title: string }>
  | ActionOf<'session/serverToolsChanged', { tools: readonly ToolDefinition[] }>
  | ActionOf<'session/activeClientSet', { activeClient: ActiveClient }>
  | ActionOf<'session/activeClientRemoved', { clientId: string }>
  | ActionOf<'session/workingDirectorySet' | 'session/workingDirectoryRemoved', { directory: Uri }>
  | ActionOf<'session/workingDirectoryReplaced', { directory: Uri; replacement: Uri }>
  | ActionOf<'session/inputNeededSet', { request: SessionInputRequest }>
  | ActionOf<'session/inputNeededRemoved', { id: string }>
  | ActionOf<'session/customizationsChanged', { customizations: readonly Customization[] }>
  | ActionOf<'session/customizationUpdated', { customization: Customization }>
  | ActionOf<'session/customizationRemoved', { id: string }>
  | ActionOf<'session/customizationToggled', { id: string; enablement: readonly Enablement[] }>
  | ActionOf<'session/mcpServerStateChanged', { id: string; state: McpServerState; channel?: Uri }>
  | ActionOf<'session/mcpServerStartRequested', { id: string }>
  | ActionOf<'session/mcpServerStopRequested', { id: string }>
  | ActionOf<'session/mcpServerBackgroundRequested', { id: string }>
  | ActionOf<'session/isReadChanged', { isRead: boolean }>
  | ActionOf<'session/isArchivedChanged', { isArchived: boolean }>
  | ActionOf<'session/activityChanged', { activity?: string }>
  | ActionOf<'session/changesetsChanged', { changesets?: readonly Changeset[] }>
  | ActionOf<'session/configChanged', { config: JsonObject; replace?: boolean }>
  | ActionOf<'session/metaChanged', { _meta?: Meta }>;

export type ToolCallAction =
  | ActionOf<'chat/toolCallDelta', InCall & { content?: string; invocationMessage?: StringOrMarkdown }>
  | ActionOf<
      'chat/toolCallReady',
      InCall & {
        contributor?: Contributor;
        intention?: string;
        invocationMessage: StringOrMarkdown;
        toolInput?: ToolInput;
        confirmationTitle?: StringOrMarkdown;
        riskAssessment?: RiskAssessment;
        edits?: { readonly items: readonly FileEdit[] };
        editable?: boolean;
        confirmed?: ConfirmationReason;
        options?: readonly ConfirmationOption[];
      }
    >
  | ActionOf<
      'chat/toolCallConfirmed',
      InCall & {
        approved: boolean;
        confirmed?: ConfirmationReason;
        reason?: CancellationReason;
        editedToolInput?: string;
        userSuggestion?: Message;
        reasonMessage?: StringOrMarkdown;
        selectedOptionId?: string;
      }
    >
  | ActionOf<'chat/toolCallComplete', InCall & { result: ToolCallResult; requiresResultConfirmation?: boolean }>
  | ActionOf<'chat/toolCallResultConfirmed', InCall & { approved: boolean }>
  | ActionOf<'chat/toolCallContentChanged', InCall & { content: readonly ToolResultContent[] }>
  | ActionOf<'chat/toolCallAuthRequired', InCall & { auth: McpAuthRequirement }>
  | ActionOf<'chat/toolCallAuthResolved', InCall>;

export type ChatAction =
  | ActionOf<'chat/turnStarted', InTurn & { startedAt: string; message: Message; queuedMessageId?: string }>
  | ActionOf<'chat/responsePart', InTurn & { part: ResponsePart }>
  | ActionOf<'chat/delta' | 'chat/reasoning', InTurn & { partId: string; content: string }>
  | ActionOf<'chat/usage', InTurn & { usage: Usage }>
  | ActionOf<'chat/turnComplete' | 'chat/turnCancelled', InTurn & { duration: number }>
  | ActionOf<'chat/error', InTurn & { duration: number; part: ErrorPart }>
  | ActionOf<'chat/turnResume', { turnId: string }>
  | ActionOf<
      'chat/toolCallStart',
      InCall & { toolName: string; displayName: string; intention?: string; contributor?: Contributor }
    >
  | ToolCallAction
  | ActionOf<'chat/inputRequested', { request: ChatInputRequest }>
  | ActionOf<'chat/inputAnswerChanged', { requestId: string; questionId: string; answer?: Answer }>
  | ActionOf<
      'chat/inputCompleted',
      { requestId: string; response: InputResponse; answers?: Readonly<Record<string, Answer>> }
    >
  | ActionOf<'chat/pendingMessageSet', { kind: 'steering' | 'queued'; id: string; message: Message }>
  | ActionOf<'chat/pendingMessageRemoved', { kind: 'steering' | 'queued'; id: string }>
  | ActionOf<'chat/queuedMessagesReordered', { order: readonly string[] }>
  | ActionOf<'chat/draftChanged', { draft?: Message }>
  | ActionOf<'chat/truncated', { turnId?: string }>
  | ActionOf<'chat/turnsLoaded', { turns: readonly Turn[]; turnsNextCursor?: string }>
  | ActionOf<'chat/activityChanged', { activity?: string }>
  | ActionOf<'chat/isReadChanged', { isRead: boolean }>
  | ActionOf<'chat/isArchivedChanged', { isArchived: boolean }>
  | ActionOf<'chat/movableChanged', { movable: boolean }>
  | ActionOf<'chat/changesetsChanged', { changesets?: readonly Changeset[] }>
  | ActionOf<'chat/backgroundWorkSet', { work: BackgroundWork }>
  | ActionOf<'chat/backgroundWorkRemoved', { id: string }>
  | ActionOf<'chat/workingDirectorySet' | 'chat/workingDirectoryRemoved', { directory: Uri }>
  | ActionOf<'chat/canvasesChanged', { canvases?: readonly JsonObject[] }>;

export type TerminalAction =
  | ActionOf<'terminal/data' | 'terminal/input', { data: string }>
  | ActionOf<'terminal/resized', { cols: number; rows: number }>
  | ActionOf<'terminal/claimed', { claim: TerminalClaim }>
  | ActionOf<'terminal/titleChanged', { title: string }>
  | ActionOf<'terminal/cwdChanged', { cwd: Uri }>
  | ActionOf<'terminal/exited', { exitCode?: number }>
  | ActionOf<'terminal/cleared'>
  | ActionOf<'terminal/commandDetectionAvailable'>
  | ActionOf<'terminal/commandExecuted', { commandId: string; commandLine: string; timestamp: number }>
  | ActionOf<'terminal/commandFinished', { commandId: string; exitCode?: number; durationMs?: number }>;

export type AnnotationsAction =
  | ActionOf<'annotations/set', { annotation: Annotation }>
  | ActionOf<
      'annotations/updated',
      { annotationId: string; origin?: AnnotationOrigin; resource?: Uri; range?: TextRange; resolved?: boolean }
    >
  | ActionOf<'annotations/removed', { annotationId: string }>
  | ActionOf<'annotations/entrySet', { annotationId: string; entry: AnnotationEntry }>
  | ActionOf<'annotations/entryRemoved', { annotationId: string; entryId: string }>;

export type ResourceWatchAction = ActionOf<
  'resourceWatch/changed',
  { changes: { readonly items: readonly ResourceChange[] } }
>;

export type ChangesetAction =
  | ActionOf<'changeset/statusChanged', { status: ChangesetState['status']; error?: ErrorInfo }>
  | ActionOf<'changeset/fileSet', { file: ChangesetFile }>
  | ActionOf<'changeset/fileRemoved', { fileId: string }>
  | ActionOf<'changeset/filesReviewChanged', { files: readonly string[]; reviewed: boolean }>
  | ActionOf<
      'changeset/contentChanged',
      { files: readonly ChangesetFile[]; operations?: readonly ChangesetOperation[] }
    >
  | ActionOf<'changeset/operationsChanged', { operations?: readonly ChangesetOperation[] }>
  | ActionOf<
      'changeset/operationStatusChanged',
      { operationId: string; status: ChangesetOperationStatus; error?: ErrorInfo }
    >
  | ActionOf<'changeset/cleared'>;

/** Every action that this client knows. Unknown actions of newer hosts are ignored. */
export type Action =
  | RootAction
  | SessionAction
  | ChatAction
  | TerminalAction
  | AnnotationsAction
  | ResourceWatchAction
  | ChangesetAction;
