/** Changes of state, and the envelopes in which the host publishes them. */

import type { Annotation, AnnotationEntry, AnnotationOrigin } from './annotations.ts';
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
import type { Changeset, ErrorInfo, FileEdit, JsonObject, Meta, StringOrMarkdown, TextRange, Uri } from './common.ts';
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

/** An action, its number, and whose wish it was. With a `rejectionReason` nothing has changed. */
export interface Envelope {
  readonly channel: Uri;
  readonly action: Action;
  readonly serverSeq: number;
  readonly origin?: { readonly clientId: string; readonly clientSeq: number };
  readonly rejectionReason?: string;
}

type A<Type extends string, Payload = unknown> = { readonly type: Type } & Readonly<Payload>;
type InTurn = { turnId: string; _meta?: Meta };
type InCall = InTurn & { toolCallId: string };

export type RootAction =
  | A<'root/agentsChanged', { agents: readonly AgentInfo[] }>
  | A<'root/activeSessionsChanged', { activeSessions: number }>
  | A<'root/terminalsChanged', { terminals: readonly TerminalInfo[] }>
  | A<'root/configChanged', { config: JsonObject; replace?: boolean }>;

export type SessionAction =
  | A<'session/ready'>
  | A<'session/creationFailed', { error: ErrorInfo }>
  | A<'session/chatAdded', { summary: ChatSummary }>
  | A<'session/chatRemoved', { chat: Uri }>
  | A<'session/chatUpdated', { chat: Uri; changes: Partial<ChatSummary> }>
  | A<'session/chatsReordered', { chats: readonly Uri[] }>
  | A<'session/defaultChatChanged', { defaultChat?: Uri }>
  | A<'session/titleChanged', { title: string }>
  | A<'session/serverToolsChanged', { tools: readonly ToolDefinition[] }>
  | A<'session/activeClientSet', { activeClient: ActiveClient }>
  | A<'session/activeClientRemoved', { clientId: string }>
  | A<'session/workingDirectorySet' | 'session/workingDirectoryRemoved', { directory: Uri }>
  | A<'session/workingDirectoryReplaced', { directory: Uri; replacement: Uri }>
  | A<'session/inputNeededSet', { request: SessionInputRequest }>
  | A<'session/inputNeededRemoved', { id: string }>
  | A<'session/customizationsChanged', { customizations: readonly Customization[] }>
  | A<'session/customizationUpdated', { customization: Customization }>
  | A<'session/customizationRemoved', { id: string }>
  | A<'session/customizationToggled', { id: string; enablement: readonly Enablement[] }>
  | A<'session/mcpServerStateChanged', { id: string; state: McpServerState; channel?: Uri }>
  | A<'session/mcpServerStartRequested', { id: string }>
  | A<'session/mcpServerStopRequested', { id: string }>
  | A<'session/mcpServerBackgroundRequested', { id: string }>
  | A<'session/isReadChanged', { isRead: boolean }>
  | A<'session/isArchivedChanged', { isArchived: boolean }>
  | A<'session/activityChanged', { activity?: string }>
  | A<'session/changesetsChanged', { changesets?: readonly Changeset[] }>
  | A<'session/configChanged', { config: JsonObject; replace?: boolean }>
  | A<'session/metaChanged', { _meta?: Meta }>;

export type ToolCallAction =
  | A<'chat/toolCallDelta', InCall & { content?: string; invocationMessage?: StringOrMarkdown }>
  | A<
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
  | A<
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
  | A<'chat/toolCallComplete', InCall & { result: ToolCallResult; requiresResultConfirmation?: boolean }>
  | A<'chat/toolCallResultConfirmed', InCall & { approved: boolean }>
  | A<'chat/toolCallContentChanged', InCall & { content: readonly ToolResultContent[] }>
  | A<'chat/toolCallAuthRequired', InCall & { auth: McpAuthRequirement }>
  | A<'chat/toolCallAuthResolved', InCall>;

export type ChatAction =
  | A<'chat/turnStarted', InTurn & { startedAt: string; message: Message; queuedMessageId?: string }>
  | A<'chat/responsePart', InTurn & { part: ResponsePart }>
  | A<'chat/delta' | 'chat/reasoning', InTurn & { partId: string; content: string }>
  | A<'chat/usage', InTurn & { usage: Usage }>
  | A<'chat/turnComplete' | 'chat/turnCancelled', InTurn & { duration: number }>
  | A<'chat/error', InTurn & { duration: number; part: ErrorPart }>
  | A<'chat/turnResume', { turnId: string }>
  | A<
      'chat/toolCallStart',
      InCall & { toolName: string; displayName: string; intention?: string; contributor?: Contributor }
    >
  | ToolCallAction
  | A<'chat/inputRequested', { request: ChatInputRequest }>
  | A<'chat/inputAnswerChanged', { requestId: string; questionId: string; answer?: Answer }>
  | A<'chat/inputCompleted', { requestId: string; response: InputResponse; answers?: Readonly<Record<string, Answer>> }>
  | A<'chat/pendingMessageSet', { kind: 'steering' | 'queued'; id: string; message: Message }>
  | A<'chat/pendingMessageRemoved', { kind: 'steering' | 'queued'; id: string }>
  | A<'chat/queuedMessagesReordered', { order: readonly string[] }>
  | A<'chat/draftChanged', { draft?: Message }>
  | A<'chat/truncated', { turnId?: string }>
  | A<'chat/turnsLoaded', { turns: readonly Turn[]; turnsNextCursor?: string }>
  | A<'chat/activityChanged', { activity?: string }>
  | A<'chat/isReadChanged', { isRead: boolean }>
  | A<'chat/isArchivedChanged', { isArchived: boolean }>
  | A<'chat/movableChanged', { movable: boolean }>
  | A<'chat/changesetsChanged', { changesets?: readonly Changeset[] }>
  | A<'chat/backgroundWorkSet', { work: BackgroundWork }>
  | A<'chat/backgroundWorkRemoved', { id: string }>
  | A<'chat/workingDirectorySet' | 'chat/workingDirectoryRemoved', { directory: Uri }>
  | A<'chat/canvasesChanged', { canvases?: readonly JsonObject[] }>;

export type TerminalAction =
  | A<'terminal/data' | 'terminal/input', { data: string }>
  | A<'terminal/resized', { cols: number; rows: number }>
  | A<'terminal/claimed', { claim: TerminalClaim }>
  | A<'terminal/titleChanged', { title: string }>
  | A<'terminal/cwdChanged', { cwd: Uri }>
  | A<'terminal/exited', { exitCode?: number }>
  | A<'terminal/cleared'>
  | A<'terminal/commandDetectionAvailable'>
  | A<'terminal/commandExecuted', { commandId: string; commandLine: string; timestamp: number }>
  | A<'terminal/commandFinished', { commandId: string; exitCode?: number; durationMs?: number }>;

export type AnnotationsAction =
  | A<'annotations/set', { annotation: Annotation }>
  | A<
      'annotations/updated',
      { annotationId: string; origin?: AnnotationOrigin; resource?: Uri; range?: TextRange; resolved?: boolean }
    >
  | A<'annotations/removed', { annotationId: string }>
  | A<'annotations/entrySet', { annotationId: string; entry: AnnotationEntry }>
  | A<'annotations/entryRemoved', { annotationId: string; entryId: string }>;

export type ResourceWatchAction = A<
  'resourceWatch/changed',
  { changes: { readonly items: readonly ResourceChange[] } }
>;

/** Every action that this client knows. Others are passed over: a newer host may say more. */
export type Action = RootAction | SessionAction | ChatAction | TerminalAction | AnnotationsAction | ResourceWatchAction;
