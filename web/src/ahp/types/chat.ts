/** A chat: turns of messages and answers. */

import type { Changeset } from './changeset.ts';
import type { ContentRef, ErrorInfo, Json, JsonObject, Meta, StringOrMarkdown, TextRange, Uri } from './common.ts';
import type { ChatSummary } from './session.ts';
import type { ToolCall } from './toolcall.ts';

export interface ChatState extends ChatSummary {
  readonly changesets?: readonly Changeset[];
  readonly backgroundWork?: readonly BackgroundWork[];
  readonly canvases?: readonly JsonObject[];
  /** The ended turns that were sent, oldest first. */
  readonly turns: readonly Turn[];
  /** Cursor for `fetchTurns`, if there are older turns. */
  readonly turnsNextCursor?: string;
  readonly activeTurn?: ActiveTurn;
  readonly steeringMessage?: PendingMessage;
  readonly queuedMessages?: readonly PendingMessage[];
  readonly draft?: Message;
  readonly _meta?: Meta;
}

export interface ActiveTurn {
  readonly id: string;
  readonly startedAt: string;
  readonly message: Message;
  readonly responseParts: readonly ResponsePart[];
  readonly usage?: Usage;
}

export interface Turn {
  readonly id: string;
  readonly startedAt?: string;
  /** Milliseconds. */
  readonly duration?: number;
  readonly message: Message;
  readonly responseParts: readonly ResponsePart[];
  readonly usage?: Usage;
  readonly state: 'complete' | 'cancelled' | 'error';
}

export interface Message {
  readonly text: string;
  readonly origin: { readonly kind: 'user' | 'agent' | 'tool' | 'automation' | 'systemNotification' };
  readonly attachments?: readonly Attachment[];
  readonly model?: { readonly id: string; readonly config?: Readonly<Record<string, Json>> };
  readonly agent?: { readonly uri: Uri };
  readonly _meta?: Meta;
}

export interface PendingMessage {
  readonly id: string;
  readonly message: Message;
}

export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly model?: string;
  readonly cacheReadTokens?: number;
  readonly _meta?: Meta;
}

interface AttachmentBase {
  readonly label: string;
  readonly range?: TextRange;
  readonly displayKind?: string;
  readonly _meta?: Meta;
}

interface Selection {
  readonly selection?: { readonly range: TextRange };
}

export type Attachment =
  | ({ readonly type: 'simple'; readonly modelRepresentation?: string } & AttachmentBase)
  | ({ readonly type: 'embeddedResource'; readonly data: string; readonly contentType: string } & AttachmentBase &
      Selection)
  | ({ readonly type: 'resource' } & ContentRef & AttachmentBase & Selection)
  | ({
      readonly type: 'annotations';
      readonly resource: Uri;
      readonly annotationIds?: readonly string[];
    } & AttachmentBase)
  | ({ readonly type: 'chat'; readonly resource: Uri; readonly endTurn?: string } & AttachmentBase);

export interface ErrorPart {
  readonly kind: 'error';
  readonly error: ErrorInfo;
  readonly resumable?: boolean;
}

export interface InputRequestPart {
  readonly kind: 'inputRequest';
  readonly request: ChatInputRequest;
  readonly response?: InputResponse;
}

export type ResponsePart =
  | { readonly kind: 'markdown'; readonly id: string; readonly content: string }
  | { readonly kind: 'reasoning'; readonly id: string; readonly content: string }
  | { readonly kind: 'toolCall'; readonly toolCall: ToolCall }
  | ({ readonly kind: 'contentRef' } & ContentRef)
  | { readonly kind: 'systemNotification'; readonly content: StringOrMarkdown; readonly _meta?: Meta }
  | InputRequestPart
  | ErrorPart;

export type InputResponse = 'accept' | 'decline' | 'cancel';

/** Questions of the agent. */
export interface ChatInputRequest {
  readonly id: string;
  readonly message?: string;
  readonly url?: Uri;
  readonly questions?: readonly Question[];
  readonly answers?: Readonly<Record<string, Answer>>;
}

interface QuestionBase {
  readonly id: string;
  readonly title?: string;
  readonly message: string;
  readonly required?: boolean;
}

export interface QuestionOption {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  readonly recommended?: boolean;
}

export type Question =
  | (QuestionBase & {
      readonly kind: 'text';
      readonly format?: string;
      readonly min?: number;
      readonly max?: number;
      readonly defaultValue?: string;
    })
  | (QuestionBase & {
      readonly kind: 'number' | 'integer';
      readonly min?: number;
      readonly max?: number;
      readonly defaultValue?: number;
    })
  | (QuestionBase & { readonly kind: 'boolean'; readonly defaultValue?: boolean })
  | (QuestionBase & {
      readonly kind: 'single-select';
      readonly options: readonly QuestionOption[];
      readonly allowFreeformInput?: boolean;
    })
  | (QuestionBase & {
      readonly kind: 'multi-select';
      readonly options: readonly QuestionOption[];
      readonly allowFreeformInput?: boolean;
      readonly min?: number;
      readonly max?: number;
    });

export type AnswerValue =
  | { readonly kind: 'text'; readonly value: string }
  | { readonly kind: 'number'; readonly value: number }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'selected'; readonly value: string; readonly freeformValues?: readonly string[] }
  | { readonly kind: 'selected-many'; readonly value: readonly string[]; readonly freeformValues?: readonly string[] };

export type Answer =
  | { readonly state: 'draft' | 'submitted'; readonly value: AnswerValue }
  | { readonly state: 'skipped'; readonly freeformValues?: readonly string[] };

/** Background work beside the turns. */
export type BackgroundWork = {
  readonly id: string;
  readonly label: string;
  readonly startedAt: string;
  readonly _meta?: Meta;
} & (
  | { readonly kind: 'shell'; readonly command: string; readonly terminal?: Uri }
  | { readonly kind: 'subagent'; readonly chat: Uri }
);
