/** Reads host metadata under `_meta.hostler`. Every field is optional and may have an unexpected type. */

import type { ConfigState, Json, JsonObject, Meta, ModelInfo, Usage } from '../ahp/index.ts';
import { strings } from '../strings.ts';

function hostMeta(meta: Meta | undefined): JsonObject {
  return asObject(meta?.hostler);
}

function asObject(value: Json | undefined): JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as JsonObject) : {};
}

function asNumber(value: Json | undefined): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function asString(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The host's stable code of a rejected action, such as `turnActive`. */
export function readRejectionCode(meta: Meta | undefined): string | undefined {
  return asString(hostMeta(meta).code);
}

/** Whether the queue of a session is paused until a user resumes it. */
export function readQueuePaused(meta: Meta | undefined): boolean {
  return hostMeta(meta).queuePaused === true;
}

/** The tag of a session. */
export function readTag(meta: Meta | undefined): string | undefined {
  return asString(hostMeta(meta).tag);
}

/** Token usage and cost of a turn or a session. */
export interface UsageTotals {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly dollars: number | undefined;
}

export function readTurnUsage(usage: Usage): UsageTotals {
  const { inputTokens, outputTokens, cacheReadTokens } = usage;
  const { cacheWriteTokens, costUsd } = hostMeta(usage._meta);
  const parts = [inputTokens, cacheReadTokens, asNumber(cacheWriteTokens)].filter((part) => part !== undefined);
  const input = parts.length > 0 ? parts.reduce((sum, part) => sum + part, 0) : undefined;
  return { input, output: outputTokens, dollars: asNumber(costUsd) };
}

export function readSessionUsage(meta: Meta | undefined): UsageTotals | undefined {
  const { usage } = hostMeta(meta);
  if (usage === undefined) return undefined;
  const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens, dollars, unpricedTokens } = asObject(usage);
  const input = (asNumber(inputTokens) ?? 0) + (asNumber(cacheReadTokens) ?? 0) + (asNumber(cacheWriteTokens) ?? 0);
  // A partial sum would understate the cost.
  const isFullyPriced = (asNumber(unpricedTokens) ?? 0) === 0;
  return { input, output: asNumber(outputTokens), dollars: isFullyPriced ? asNumber(dollars) : undefined };
}

/** How much of the context window is used. */
export interface ContextUsage {
  readonly used: number;
  readonly limit: number | undefined;
}

export function readContextUsage(usage: Usage | undefined, models: readonly ModelInfo[]): ContextUsage | undefined {
  if (!usage) return undefined;
  const { contextTokens, contextWindow } = hostMeta(usage._meta);
  const used = asNumber(contextTokens);
  if (used === undefined) return undefined;
  const known = models.find((model) => model.id === usage.model)?.maxContextWindow;
  return { used, limit: asNumber(contextWindow) ?? known };
}

/** The message about a reached limit that pauses the session. */
export function readLimitMessage(meta: Meta | undefined): string | undefined {
  return asString(asObject(hostMeta(meta).limitReached).message);
}

/** Whether the configuration of the session's folder applies. */
export interface FolderTrust {
  readonly state: string;
  readonly directory: string;
}

export function readFolderTrust(meta: Meta | undefined): FolderTrust | undefined {
  const trust = asObject(hostMeta(meta).trust);
  const [state, directory] = [asString(trust.state), asString(trust.directory)];
  return state && directory ? { state, directory } : undefined;
}

/** The turns that are not on the active branch of the agent's transcript. */
export function readAbandonedTurns(meta: Meta | undefined): ReadonlySet<string> {
  const { abandonedTurns } = hostMeta(meta);
  return new Set(Array.isArray(abandonedTurns) ? abandonedTurns.flatMap((id: Json) => asString(id) ?? []) : []);
}

/** Warnings about how an attachment was changed. */
export function readAttachmentWarnings(meta: Meta | undefined): readonly string[] {
  const { warnings } = hostMeta(meta);
  if (!Array.isArray(warnings)) return [];
  return warnings.flatMap((warning: Json) => {
    // Stored messages have the former name `sentence`.
    const { message, sentence } = asObject(warning);
    return asString(message) ?? asString(sentence) ?? [];
  });
}

/** The end of the agent's standard error output. */
export function readAgentStderr(meta: Meta | undefined): string | undefined {
  return asString(hostMeta(meta).stderr);
}

export function formatDollars(amount: number): string {
  if (amount === 0) return '$0';
  if (amount < 0.001) return '< $0.001';
  return `$${amount.toFixed(amount < 0.1 ? 3 : 2)}`;
}

const ERROR_HEADLINES: Readonly<Record<string, string>> = strings.turnErrors.types;

/** The headline of an error type; the error's own message says what to do. */
export function errorHeadline(errorType: string): string {
  if (errorType.startsWith('attachment_')) return strings.turnErrors.attachment;
  return Object.hasOwn(ERROR_HEADLINES, errorType) ? (ERROR_HEADLINES[errorType] ?? '') : strings.turnErrors.unknown;
}

/** The configured values of a session with their labels. */
export function configuredValues(
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
