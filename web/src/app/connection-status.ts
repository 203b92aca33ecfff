/** What is said while the host is away, and when it comes back as another one. */

import type { ConnectionState } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export interface ConnectionNotice {
  readonly kind: 'disconnected' | 'offline' | 'refused' | 'updated';
  readonly text: string;
  /** What happens next. */
  readonly hint: string;
}

/** Shorter ones are not worth a word, in milliseconds. */
export const NOTICE_DELAY_MS = 1_500;

/** What there is to say, if anything; `since` is when the host was last there, or when it was first asked. */
export function connectionNotice(state: ConnectionState, since: number, now: number): ConnectionNotice | undefined {
  if (state.phase === 'refused')
    return {
      kind: 'refused',
      text: strings.connection.incompatible,
      hint: strings.connection.incompatibleHint(state.reason),
    };
  if (state.phase === 'idle' || state.phase === 'ready' || now - since < NOTICE_DELAY_MS) return undefined;
  if (state.phase === 'connecting')
    return {
      kind: 'disconnected',
      text: strings.connection.disconnected(formatOutage(now - since)),
      hint: strings.connection.connecting,
    };
  const seconds = Math.max(1, Math.ceil((state.until - now) / 1_000));
  const hint = strings.connection.retryIn(seconds);
  if (state.offline) return { kind: 'offline', text: strings.connection.offline, hint };
  return { kind: 'disconnected', text: strings.connection.disconnected(formatOutage(now - since)), hint };
}

/** What there is to say of a host that was updated under the page: `first` is the version that the page came with. */
export function versionNotice(
  pageVersion: string | undefined,
  hostVersion: string | undefined,
): ConnectionNotice | undefined {
  if (pageVersion === undefined || hostVersion === undefined || pageVersion === hostVersion) return undefined;
  return { kind: 'updated', text: strings.connection.updated(hostVersion), hint: strings.connection.updatedHint };
}

function formatOutage(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return '';
  if (minutes < 60) return strings.connection.outageMinutes(minutes);
  return strings.connection.outageHours(Math.floor(minutes / 60), minutes % 60);
}
