/** A terminal on the host's machine. */

import type { Uri } from './common.ts';

export type TerminalClaim =
  | { readonly kind: 'client'; readonly clientId: string }
  | {
      readonly kind: 'session';
      readonly session: Uri;
      readonly chat: Uri;
      readonly turnId?: string;
      readonly toolCallId?: string;
    };

export interface TerminalExited {
  readonly status: 'exited';
  readonly exitCode?: number;
}

export type TerminalLifecycle = { readonly status: 'running' } | TerminalExited;

/** A terminal's summary in the root state. */
export interface TerminalInfo {
  readonly resource: Uri;
  readonly title: string;
  readonly claim: TerminalClaim;
  readonly lifecycle: TerminalLifecycle;
}

export interface TerminalState {
  readonly title: string;
  readonly cwd?: Uri;
  readonly cols?: number;
  readonly rows?: number;
  readonly content: readonly TerminalPart[];
  readonly lifecycle: TerminalLifecycle;
  readonly claim: TerminalClaim;
  readonly supportsCommandDetection?: boolean;
  readonly isPty?: boolean;
}

export interface TerminalCommand {
  readonly type: 'command';
  readonly commandId: string;
  readonly commandLine: string;
  readonly output: string;
  readonly timestamp: number;
  readonly isComplete: boolean;
  readonly exitCode?: number;
  readonly durationMs?: number;
}

export type TerminalPart = { readonly type: 'unclassified'; readonly value: string } | TerminalCommand;
