/** What is said while the host is away, and when it comes back as another one. */

import type { LinkState } from '../ahp/index.ts';

export interface Absence {
  readonly kind: 'disconnected' | 'offline' | 'refused' | 'updated';
  readonly text: string;
  /** What happens next. */
  readonly hint: string;
}

/** Shorter ones are not worth a word, in milliseconds. */
export const PATIENCE = 1_500;

/** What there is to say, if anything; `since` is when the host was last there, or when it was first asked. */
export function absence(state: LinkState, since: number, now: number): Absence | undefined {
  if (state.phase === 'refused')
    return {
      kind: 'refused',
      text: 'This host does not understand this page.',
      hint: `${state.reason} Reload to get its own.`,
    };
  if (state.phase === 'idle' || state.phase === 'ready' || now - since < PATIENCE) return undefined;
  if (state.phase === 'connecting')
    return { kind: 'disconnected', text: `The host is away${lasting(now - since)}.`, hint: 'Trying now…' };
  const seconds = Math.max(1, Math.ceil((state.until - now) / 1_000));
  const hint = `Trying again in ${seconds} s.`;
  if (state.offline) return { kind: 'offline', text: 'This device is offline.', hint };
  return { kind: 'disconnected', text: `The host is away${lasting(now - since)}.`, hint };
}

/** What there is to say of a host that was updated under the page: `first` is the version that the page came with. */
export function update(first: string | undefined, version: string | undefined): Absence | undefined {
  if (first === undefined || version === undefined || first === version) return undefined;
  return { kind: 'updated', text: `The host was updated to ${version}.`, hint: 'Reload to get its page.' };
}

function lasting(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return '';
  if (minutes < 60) return ` for ${minutes} min`;
  return ` for ${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
