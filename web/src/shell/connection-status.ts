/** Notices about the connection: disconnected, offline, incompatible, updated. Pure; does not own timers. */

import type { ConnectionState } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export interface ConnectionNotice {
  readonly kind: 'disconnected' | 'offline' | 'refused' | 'updated';
  readonly text: string;
  /** What happens next. */
  readonly hint: string;
}

/** Shorter outages show no notice. */
export const NOTICE_DELAY_MS = 1_500;

/** The notice for a connection state, if any; `since` is when the outage started. */
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

/** The notice about a host that was updated after it served this page. */
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
