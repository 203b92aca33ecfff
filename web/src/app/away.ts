/** What is said while the host is away. */

import type { LinkState } from '../ahp/index.ts';

export interface Absence {
  readonly kind: 'away' | 'offline' | 'refused';
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
    return { kind: 'away', text: `The host is away${lasting(now - since)}.`, hint: 'Trying now…' };
  const seconds = Math.max(1, Math.ceil((state.until - now) / 1_000));
  const hint = `Trying again in ${seconds} s.`;
  if (state.offline) return { kind: 'offline', text: 'This device is offline.', hint };
  return { kind: 'away', text: `The host is away${lasting(now - since)}.`, hint };
}

function lasting(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return '';
  if (minutes < 60) return ` for ${minutes} min`;
  return ` for ${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
