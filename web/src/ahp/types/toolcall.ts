/** A tool call and its states. */

import type { Message } from './chat.ts';
import type { ContentRef, FileEdit, Json, JsonObject, Meta, StringOrMarkdown, Uri } from './common.ts';
import type { McpAuthRequirement } from './customization.ts';

export type Contributor =
  | { readonly kind: 'client'; readonly clientId: string }
  | { readonly kind: 'mcp'; readonly customizationId: string };

/** Raw arguments, usually JSON text; large ones are a resource. */
export type ToolInput = string | ContentRef;

export type ConfirmationReason = 'not-needed' | 'user-action' | 'setting';
export type CancellationReason = 'denied' | 'skipped' | 'result-denied';

export interface ConfirmationOption {
  readonly id: string;
  readonly label: string;
  readonly kind: 'approve' | 'deny';
  readonly group?: number;
}

export interface RiskAssessment {
  readonly status: 'loading' | 'complete';
  readonly kind: 'judge';
  readonly reason?: StringOrMarkdown;
  readonly safety?: number;
}

interface ToolCallBase {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly intention?: string;
  readonly contributor?: Contributor;
  readonly _meta?: Meta;
}

interface ToolCallReady extends ToolCallBase {
  readonly invocationMessage: StringOrMarkdown;
  readonly toolInput?: ToolInput;
}

interface ToolCallConfirmed extends ToolCallReady {
  readonly confirmed: ConfirmationReason;
  readonly selectedOption?: ConfirmationOption;
}

export interface ToolCallStreaming extends ToolCallBase {
  readonly status: 'streaming';
  readonly partialInput?: string;
  readonly invocationMessage?: StringOrMarkdown;
}

/** Waits for a confirmation. */
export interface ToolCallPending extends ToolCallReady {
  readonly status: 'pending-confirmation';
  readonly confirmationTitle?: StringOrMarkdown;
  readonly riskAssessment?: RiskAssessment;
  readonly edits?: { readonly items: readonly FileEdit[] };
  readonly editable?: boolean;
  readonly options?: readonly ConfirmationOption[];
}

export interface ToolCallRunning extends ToolCallConfirmed {
  readonly status: 'running';
  readonly content?: readonly ToolResultContent[];
}

export interface ToolCallAuthRequired extends ToolCallConfirmed {
  readonly status: 'auth-required';
  readonly auth: McpAuthRequirement;
  readonly content?: readonly ToolResultContent[];
}

interface ToolCallOutcome {
  readonly success: boolean;
  readonly pastTenseMessage: StringOrMarkdown;
  readonly content?: readonly ToolResultContent[];
  readonly structuredContent?: JsonObject;
  readonly error?: Json;
}

export interface ToolCallPendingResult extends ToolCallConfirmed, ToolCallOutcome {
  readonly status: 'pending-result-confirmation';
}

export interface ToolCallCompleted extends ToolCallConfirmed, ToolCallOutcome {
  readonly status: 'completed';
}

export interface ToolCallCancelled extends ToolCallReady {
  readonly status: 'cancelled';
  readonly reason: CancellationReason;
  readonly reasonMessage?: StringOrMarkdown;
  readonly userSuggestion?: Message;
  readonly selectedOption?: ConfirmationOption;
}

export type ToolCall =
  | ToolCallStreaming
  | ToolCallPending
  | ToolCallRunning
  | ToolCallAuthRequired
  | ToolCallPendingResult
  | ToolCallCompleted
  | ToolCallCancelled;

export type ToolCallResult = ToolCallOutcome;

export type ToolResultContent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'embeddedResource'; readonly data: string; readonly contentType: string }
  | ({ readonly type: 'resource' } & ContentRef)
  | ({ readonly type: 'fileEdit' } & FileEdit)
  | {
      readonly type: 'terminal';
      readonly resource: Uri;
      readonly title: string;
      readonly isPty?: boolean;
      readonly result?: { readonly exitCode?: number; readonly preview?: string; readonly truncated?: boolean };
    }
  | {
      readonly type: 'subagent';
      readonly resource: Uri;
      readonly title: string;
      readonly agentName?: string;
      readonly description?: string;
    };
