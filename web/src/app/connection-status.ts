/** What is said while the host is away, and when it comes back as another one. */

import type { LinkState } from '../ahp/index.ts';

export interface ConnectionNotice {
  readonly kind: 'disconnected' | 'offline' | 'refused' | 'updated';
  readonly text: string;
  /** What happens next. */
  readonly hint: string;
}

/** Shorter ones are not worth a word, in milliseconds. */
export const NOTICE_DELAY_MS = 1_500;

/** What there is to say, if anything; `since` is when the host was last there, or when it was first asked. */
export function connectionNotice(state: LinkState, since: number, now: number): ConnectionNotice | undefined {
  if (state.phase === 'refused')
    return {
      kind: 'refused',
      text: 'This host does not understand this page.',
      hint: `${state.reason} Reload to get its own.`,
    };
  if (state.phase === 'idle' || state.phase === 'ready' || now - since < NOTICE_DELAY_MS) return undefined;
  if (state.phase === 'connecting')
    return { kind: 'disconnected', text: `The host is away${formatOutage(now - since)}.`, hint: 'Trying now…' };
  const seconds = Math.max(1, Math.ceil((state.until - now) / 1_000));
  const hint = `Trying again in ${seconds} s.`;
  if (state.offline) return { kind: 'offline', text: 'This device is offline.', hint };
  return { kind: 'disconnected', text: `The host is away${formatOutage(now - since)}.`, hint };
}

/** What there is to say of a host that was updated under the page: `first` is the version that the page came with. */
export function versionNotice(
  pageVersion: string | undefined,
  hostVersion: string | undefined,
): ConnectionNotice | undefined {
  if (pageVersion === undefined || hostVersion === undefined || pageVersion === hostVersion) return undefined;
  return { kind: 'updated', text: `The host was updated to ${hostVersion}.`, hint: 'Reload to get its page.' };
}

function formatOutage(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return '';
  if (minutes < 60) return ` for ${minutes} min`;
  return ` for ${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
