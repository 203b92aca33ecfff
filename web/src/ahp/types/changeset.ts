/** Changesets: lists of changed files, each list with its own channel. */

import type { ContentRef, ErrorInfo, FileEdit, JsonObject, Meta, StringOrMarkdown, TextRange, Uri } from './common.ts';

/** A changeset that a session or chat offers. Its channel is the expanded template. */
export interface Changeset {
  readonly label: string;
  /** With no variable, with `{turnId}`, or with `{originalTurnId}` and `{modifiedTurnId}` (RFC 6570). */
  readonly uriTemplate: string;
  readonly description?: string;
  /** `session`, `branch`, `uncommitted`, `turn`, `compare-turns`, or another value. */
  readonly changeKind: string;
  readonly capabilities?: { readonly review?: JsonObject };
}

export interface ChangesetState {
  readonly status: 'computing' | 'recomputing' | 'ready' | 'error';
  /** Present if the status is `error`. */
  readonly error?: ErrorInfo;
  readonly files: readonly ChangesetFile[];
  readonly operations?: readonly ChangesetOperation[];
}

export interface ChangesetFile {
  readonly id: string;
  readonly edit: FileEdit;
  /** Absent means `false`. The host resets it when the file changes. */
  readonly reviewed?: boolean;
  readonly _meta?: Meta;
}

export interface ChangesetOperation {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  readonly scopes: readonly ('changeset' | 'resource' | 'range')[];
  /** A question that the user must confirm before the operation is invoked. */
  readonly confirmation?: StringOrMarkdown;
  readonly icon?: string;
  readonly group?: string;
  readonly status: ChangesetOperationStatus;
  /** Present if the status is `error`. */
  readonly error?: ErrorInfo;
}

export type ChangesetOperationStatus = 'idle' | 'running' | 'error';

/** What an operation applies to, unless to the whole changeset. */
export type ChangesetOperationTarget =
  | { readonly kind: 'resource'; readonly resource: Uri; readonly side?: string }
  | { readonly kind: 'range'; readonly resource: Uri; readonly side?: string; readonly range: TextRange };

export interface ChangesetOperationResult {
  readonly message?: StringOrMarkdown;
  readonly followUp?: { readonly content: ContentRef; readonly external?: boolean };
}
