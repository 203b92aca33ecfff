/** Plugins, directories and MCP servers of a session. Only what the reducer needs is spelled out. */

import type { ErrorInfo, JsonObject, Meta, ProtectedResource, TextRange, Uri } from './common.ts';

export type Enablement =
  | { readonly kind: 'global'; readonly enabled: boolean }
  | { readonly kind: 'workspace'; readonly uri: Uri; readonly enabled: boolean }
  | { readonly kind: 'session'; readonly enabled: boolean };

interface CustomizationBase {
  readonly id: string;
  readonly uri: Uri;
  readonly name: string;
  readonly range?: TextRange;
  readonly _meta?: Meta;
}

interface CustomizationContainer extends CustomizationBase {
  readonly clientId?: string;
  readonly load?: { readonly kind: 'loading' | 'loaded' | 'degraded' | 'error'; readonly message?: string };
  readonly children?: readonly ChildCustomization[];
}

export interface PluginCustomization extends CustomizationContainer {
  readonly type: 'plugin';
  readonly enablement?: readonly Enablement[];
  readonly version?: string;
}

export interface DirectoryCustomization extends CustomizationContainer {
  readonly type: 'directory';
  readonly enabled: boolean;
  readonly contents: string;
  readonly writable: boolean;
}

export interface McpServerCustomization extends CustomizationBase {
  readonly type: 'mcpServer';
  readonly enablement?: readonly Enablement[];
  readonly state: McpServerState;
  readonly channel?: Uri;
  readonly mcpApp?: JsonObject;
}

export interface LeafCustomization extends CustomizationBase {
  readonly type: 'agent' | 'skill' | 'prompt' | 'rule' | 'hook';
  readonly enabled?: boolean;
  readonly description?: string;
}

export type ChildCustomization = LeafCustomization | McpServerCustomization;
export type Customization = PluginCustomization | DirectoryCustomization | McpServerCustomization;

export type McpServerState =
  | { readonly kind: 'starting'; readonly blocking?: boolean }
  | { readonly kind: 'ready' }
  | ({ readonly kind: 'authRequired' } & McpAuthRequirement)
  | { readonly kind: 'error'; readonly error: ErrorInfo }
  | { readonly kind: 'stopped' };

export interface McpAuthRequirement {
  readonly reason: 'required' | 'expired' | 'insufficientScope';
  readonly oauthClient?: JsonObject;
  readonly resource: ProtectedResource;
  readonly requiredScopes?: readonly string[];
  readonly description?: string;
}
