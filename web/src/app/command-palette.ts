/** What the palette offers for what was typed. */

import type { SessionSummary } from '../ahp/index.ts';
import {
  folderName,
  isArchived,
  isWaiting,
  matchesSession,
  matchesWords,
  searchWords,
  sessionTitle,
} from '../sessions/session-rows.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';

export interface PaletteEntry {
  readonly key: string;
  readonly label: string;
  /** What else is said about it, at its end. */
  readonly hint?: string;
  readonly icon: IconName;
  readonly run: () => void;
}

/** How many sessions are offered at once: whoever wants others types on. */
const MAX_SESSION_ENTRIES = 40;

/** Actions and sessions that have all the words; sessions first where nothing is typed, what waits before all others. */
export function findPaletteEntries(
  text: string,
  sessions: readonly SessionSummary[],
  actions: readonly PaletteEntry[],
  open: (session: SessionSummary) => void,
): readonly PaletteEntry[] {
  const words = searchWords(text);
  const matching = sessions.filter((session) => !isArchived(session) && matchesSession(session, words));
  const ordered = [...matching.filter(isWaiting), ...matching.filter((session) => !isWaiting(session))];
  const sessionEntries = ordered.slice(0, MAX_SESSION_ENTRIES).map((session) => ({
    key: session.resource,
    label: sessionTitle(session),
    hint: isWaiting(session) ? strings.common.waitingForYou : folderName(session),
    icon: 'agent' as const,
    run: () => open(session),
  }));
  const matchingActions = actions.filter(({ label, hint }) => matchesWords(`${label} ${hint ?? ''}`, words));
  return words.length > 0
    ? [...matchingActions, ...sessionEntries]
    : [...sessionEntries.slice(0, 8), ...matchingActions];
}
