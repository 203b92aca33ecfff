/** Types shared by all parts of the protocol. Names and shapes are those of AHP 1.0 on the wire. */

/** A URI as text. Channels are compared as strings, never parsed. */
export type Uri = string;

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json | undefined;
}

/** Free-form metadata that is passed through unchanged. */
export type Meta = JsonObject;

export type StringOrMarkdown = string | { readonly markdown: string };

export interface ErrorInfo {
  readonly errorType: string;
  readonly message: string;
  readonly stack?: string;
  readonly _meta?: Meta;
}

/** Contents that are loaded with `resourceRead`. */
export interface ContentRef {
  readonly uri: Uri;
  readonly sizeHint?: number;
  readonly contentType?: string;
  readonly nonce?: string;
}

export interface TextPosition {
  readonly line: number;
  readonly character: number;
}

export interface TextRange {
  readonly start: TextPosition;
  readonly end: TextPosition;
}

export interface FileEditSide {
  readonly uri: Uri;
  readonly content: ContentRef;
}

/** A file edit. Without `before` the file is new, without `after` it is deleted. */
export interface FileEdit {
  readonly before?: FileEditSide;
  readonly after?: FileEditSide;
  readonly diff?: { readonly added?: number; readonly removed?: number };
}

export interface ChangesSummary {
  readonly additions?: number;
  readonly deletions?: number;
  readonly files?: number;
}

/** A protected resource with RFC 9728 keys. */
export interface ProtectedResource {
  readonly resource: string;
  readonly resource_name?: string;
  readonly authorization_servers?: readonly string[];
  readonly scopes_supported?: readonly string[];
  readonly resource_documentation?: string;
  readonly required?: boolean;
}

export interface ConfigProperty {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly default?: Json;
  readonly enum?: readonly Json[];
  readonly enumLabels?: readonly string[];
  readonly enumDescriptions?: readonly string[];
  readonly readOnly?: boolean;
  readonly items?: ConfigProperty;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, ConfigProperty>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: ConfigProperty;
  /** For session properties: values come from `sessionConfigCompletions`. */
  readonly enumDynamic?: boolean;
  /** For session properties: it can change after creation. */
  readonly sessionMutable?: boolean;
}

export interface ConfigSchema {
  readonly type: string;
  readonly properties: Readonly<Record<string, ConfigProperty>>;
  readonly required?: readonly string[];
}

export interface ConfigState {
  readonly schema: ConfigSchema;
  readonly values: JsonObject;
}

/**
 * A status is one activity (bits 0 to 4) and flags above it. Bits that this client does not know are retained.
 * `inputNeeded` includes `inProgress`.
 */
export const StatusFlag = {
  idle: 1,
  error: 2,
  inProgress: 8,
  inputNeeded: 24,
  activity: 31,
  isRead: 32,
  isArchived: 64,
} as const;

/** The activity of a status; unknown values map to the nearest known one. */
export function activityOf(status: number): 'idle' | 'error' | 'inProgress' | 'inputNeeded' {
  const activity = status & StatusFlag.activity;
  if ((activity & StatusFlag.inputNeeded) === StatusFlag.inputNeeded) return 'inputNeeded';
  if (activity & StatusFlag.inProgress) return 'inProgress';
  if (activity & StatusFlag.error) return 'error';
  return 'idle';
}

/** Whether all bits of a flag are set. */
export function hasFlag(status: number, flag: number): boolean {
  return (status & flag) === flag;
}
