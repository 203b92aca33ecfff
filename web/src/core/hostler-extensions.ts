/**
 * The methods that this host adds to AHP, with their types. They extend the commands of the AHP client, which does not
 * know them. `host-metadata.ts` reads what the host adds to states.
 */

import type { Attachment, Uri } from '../ahp/index.ts';

/** The plan for attachments, from `hostler/planAttachments`. */
export interface AttachmentPlan {
  readonly ok: boolean;
  /** Why the message as a whole cannot be sent. */
  readonly reason?: string;
  /** In the order of the request. */
  readonly files: readonly FilePlan[];
}

export interface FilePlan {
  readonly label: string;
  /** `wouldSend`: only another file blocks the message. */
  readonly decision: 'send' | 'wouldSend' | 'reject';
  readonly code?: string;
  /** Why it is rejected, and what to do. */
  readonly message?: string;
  readonly warnings?: readonly { readonly kind: string; readonly message: string }[];
  readonly contentType?: string;
  readonly bytes?: number;
  readonly width?: number;
  readonly height?: number;
  readonly pages?: number;
}

/** A session with search matches, from `hostler/search`. */
export interface SessionSearchResult {
  readonly session: Uri;
  readonly title: string;
  readonly workspace?: string;
  readonly modifiedAtMs: number;
  /** Undefined if the session is listed. */
  readonly listed?: false;
  /** Number of matching turns. */
  readonly matchingTurns: number;
  readonly hits: readonly SearchMatch[];
}

/** A match; without a turn it is in the session's title. */
export interface SearchMatch {
  readonly chat?: Uri;
  readonly turn?: string;
  readonly atMs: number;
  readonly kind: string;
  readonly snippet: string;
  /** Match ranges in UTF-16 units. */
  readonly matches: readonly (readonly [number, number])[];
}

/** A signed-in browser, from `hostler/listBrowserSessions`. */
export interface BrowserSession {
  readonly id: string;
  readonly label: string;
  readonly createdAt: string;
  readonly lastSeenAt: string;
  /** Whether it is this browser. */
  readonly current: boolean;
}

/** A resource grant outside the sessions' directories, granted or waiting. */
export interface Grant {
  readonly id: string;
  readonly uri: Uri;
  readonly write: boolean;
  readonly waiting: boolean;
}

/** One item of a folder's own configuration. */
export interface ConfigurationItem {
  readonly kind: string;
  readonly name: string;
  /** The file that defines it. */
  readonly source: string;
  readonly hash: string;
  /** Why it does not apply even in a trusted folder. */
  readonly blocked?: string;
}

/** Whether a folder's own configuration applies, by `hostler/checkTrust`. */
export interface TrustReport {
  readonly directory: string;
  readonly state: string;
  readonly trustedBy?: string;
  readonly inheritedFrom?: string;
  /** Why the folder cannot be trusted. */
  readonly reason?: string;
  readonly configuration: { readonly fingerprint: string; readonly items: readonly ConfigurationItem[] };
  /** Changes since the folder was trusted. */
  readonly difference?: {
    readonly added: readonly ConfigurationItem[];
    readonly changed: readonly ConfigurationItem[];
    readonly removed: readonly ConfigurationItem[];
  };
}

export type TrustDecision = 'trust' | 'trustSubfolders' | 'restrict';

/** A folder with a trust decision, from `hostler/listTrust`. */
export interface FolderDecision {
  readonly path: string;
  readonly decision: TrustDecision;
  readonly inheritedFrom?: string;
  readonly items: readonly ConfigurationItem[];
}

declare module '../ahp/types/commands.ts' {
  interface Commands {
    'hostler/planAttachments': [{ attachments: readonly Attachment[] }, AttachmentPlan];
    'hostler/readBackgroundOutput': [{ id: string }, { readonly output: string; readonly truncated: boolean }];
    'hostler/stopBackgroundWork': [{ id: string }, null];
    'hostler/search': [
      {
        query: string;
        limit?: number;
        offset?: number;
        byTurn?: boolean;
        waitForIndex?: boolean;
        includeUnlisted?: boolean;
      },
      {
        readonly items: readonly SessionSearchResult[];
        readonly nextOffset?: number;
        readonly pendingSessions: number;
        /** Why some sessions could not be searched. */
        readonly indexError?: string;
      },
    ];
    'hostler/tagSession': [{ tag: string | null }, null];
    'hostler/listGrants': [unknown, { readonly items: readonly Grant[] }];
    'hostler/allowGrant': [{ id: string }, unknown];
    'hostler/createSignInLink': [
      { minutes?: number; label?: string },
      { readonly code: string; readonly expiresAt: string; readonly path: string },
    ];
    'hostler/listBrowserSessions': [unknown, { readonly items: readonly BrowserSession[] }];
    'hostler/signOut': [{ id?: string }, unknown];
    'hostler/listTrust': [
      unknown,
      { readonly items: readonly FolderDecision[]; readonly trustedFolders: readonly string[] },
    ];
    'hostler/checkTrust': [{ directory: string; provider?: string }, TrustReport];
    'hostler/setTrust': [
      { directory: string; provider?: string; decision: TrustDecision; fingerprint: string },
      TrustReport,
    ];
    'hostler/removeTrust': [{ directory: string }, { readonly removed: boolean }];
    'hostler/removeImages': [{ images: 'last' | 'all' }, { readonly removed: number }];
  }
}
