/** The channel `ahp-root://`: what the host offers. */

import type { ConfigSchema, ConfigState, Meta, ProtectedResource } from './common.ts';
import type { Customization } from './customization.ts';
import type { TerminalInfo } from './terminal.ts';

export const ROOT_CHANNEL = 'ahp-root://';

export interface RootState {
  readonly agents: readonly AgentInfo[];
  readonly activeSessions?: number;
  readonly terminals?: readonly TerminalInfo[];
  readonly config?: ConfigState;
  readonly _meta?: Meta;
}

export interface AgentInfo {
  readonly provider: string;
  readonly displayName: string;
  readonly description: string;
  readonly models: readonly ModelInfo[];
  readonly protectedResources?: readonly ProtectedResource[];
  readonly customizations?: readonly Customization[];
  readonly capabilities?: {
    readonly multipleChats?: { readonly fork?: boolean; readonly sideChat?: boolean };
    readonly multipleWorkingDirectories?: {
      readonly immutablePrimary?: boolean;
      readonly primaryReplacement?: boolean;
    };
  };
}

export interface ModelInfo {
  readonly id: string;
  readonly provider: string;
  readonly name: string;
  readonly maxContextWindow?: number;
  readonly maxOutputTokens?: number;
  readonly maxPromptTokens?: number;
  readonly supportsVision?: boolean;
  readonly policyState?: 'enabled' | 'disabled' | 'unconfigured';
  readonly configSchema?: ConfigSchema;
  readonly _meta?: Meta;
}
