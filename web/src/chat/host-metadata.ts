/** What the host tells beside the protocol, under `_meta.hostler`. Nothing of it has to be there, or of the right kind. */

import type { ConfigState, Json, JsonObject, Meta, ModelInfo, Usage } from '../ahp/index.ts';

function told(meta: Meta | undefined): JsonObject {
  return object(meta?.hostler);
}

function object(value: Json | undefined): JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as JsonObject) : {};
}

function number(value: Json | undefined): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function string(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What a turn, or a whole session, has used. */
export interface Spent {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly dollars: number | undefined;
}

export function spentByTurn(usage: Usage): Spent {
  const { inputTokens, outputTokens, cacheReadTokens } = usage;
  const { cacheWriteTokens, costUsd } = told(usage._meta);
  const parts = [inputTokens, cacheReadTokens, number(cacheWriteTokens)].filter((part) => part !== undefined);
  const input = parts.length > 0 ? parts.reduce((sum, part) => sum + part, 0) : undefined;
  return { input, output: outputTokens, dollars: number(costUsd) };
}

export function spentBySession(meta: Meta | undefined): Spent | undefined {
  const { usage } = told(meta);
  if (usage === undefined) return undefined;
  const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens, dollars, unpricedTokens } = object(usage);
  const input = (number(inputTokens) ?? 0) + (number(cacheReadTokens) ?? 0) + (number(cacheWriteTokens) ?? 0);
  // A sum that leaves some of it out would say less than it was.
  const isWhole = (number(unpricedTokens) ?? 0) === 0;
  return { input, output: number(outputTokens), dollars: isWhole ? number(dollars) : undefined };
}

/** How full the model's memory is. */
export interface Fill {
  readonly used: number;
  readonly of: number | undefined;
}

export function fillOf(usage: Usage | undefined, models: readonly ModelInfo[]): Fill | undefined {
  if (!usage) return undefined;
  const { contextTokens, contextWindow } = told(usage._meta);
  const used = number(contextTokens);
  if (used === undefined) return undefined;
  const known = models.find((model) => model.id === usage.model)?.maxContextWindow;
  return { used, of: number(contextWindow) ?? known };
}

/** A limit that everything waits for. */
export function heldBy(meta: Meta | undefined): string | undefined {
  return string(object(told(meta).held).message);
}

/** Whether the configuration of the session's folder applies. */
export interface FolderTrust {
  readonly state: string;
  readonly directory: string;
}

export function trustOf(meta: Meta | undefined): FolderTrust | undefined {
  const trust = object(told(meta).trust);
  const [state, directory] = [string(trust.state), string(trust.directory)];
  return state && directory ? { state, directory } : undefined;
}

/** What became of an attachment that a person could notice. */
export function warningsOf(meta: Meta | undefined): readonly string[] {
  const { warnings } = told(meta);
  if (!Array.isArray(warnings)) return [];
  return warnings.flatMap((warning: Json) => string(object(warning).sentence) ?? []);
}

/** The end of what an agent wrote to its error output. */
export function stderrOf(meta: Meta | undefined): string | undefined {
  return string(told(meta).stderr);
}

export function dollars(amount: number): string {
  if (amount === 0) return '$0';
  if (amount < 0.001) return '< $0.001';
  return `$${amount.toFixed(amount < 0.1 ? 3 : 2)}`;
}

const FAILURES: Readonly<Record<string, string>> = {
  interrupted: 'The host ended in the middle of this turn',
  agentExited: 'The agent ended unexpectedly',
  agentMissing: 'There is no agent on the host',
  agentVersion: 'The agent on the host is too old',
  agentTimeout: 'The agent did not become ready',
  agentRefused: 'The agent did not become ready',
  agentStartFailed: 'The agent could not be started',
  conversationMissing: 'The agent no longer has this conversation',
  conversationBusy: 'Another process leads this conversation',
  workingDirectoryMissing: 'The folder of this session is gone',
  auth: 'The model’s provider did not let the agent in',
  rateLimit: 'The model’s provider asks to slow down',
  overloaded: 'The model’s provider is overloaded',
  invalidRequest: 'The model’s provider did not take the request',
  tooLarge: 'The conversation is too long for the model',
  network: 'The model’s provider could not be reached',
  limit: 'The agent reached a limit',
  agent: 'The agent gave up',
  subAgent: 'The sub-agent could not finish',
};

/** What happened, in a few words; the error's own message says what to do. */
export function failureOf(errorType: string): string {
  if (errorType.startsWith('attachment_')) return 'An attachment could not be used';
  return Object.hasOwn(FAILURES, errorType) ? (FAILURES[errorType] ?? '') : 'The turn failed';
}

/** What a person has chosen for a session, in the words of the choice. */
export function configuredOf(
  config: ConfigState | undefined,
  keys: readonly string[] = ['permissionMode', 'model', 'effort', 'branch'],
): readonly { title: string; value: string }[] {
  return keys.flatMap((key) => {
    const property = config?.schema.properties[key];
    const value = config?.values[key] ?? undefined;
    if (!property || value === undefined || value === '') return [];
    const label = property.enumLabels?.[property.enum?.indexOf(value) ?? -1];
    return { title: property.title, value: label ?? (typeof value === 'string' ? value : JSON.stringify(value)) };
  });
}
