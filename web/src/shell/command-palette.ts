/** Entries of the command palette for a typed text. Knows neither the page nor its dialogs. */

import type { SessionSummary } from '../ahp/index.ts';
import {
  folderName,
  isArchived,
  isWaiting,
  matchesSession,
  matchesWords,
  searchWords,
  sessionTitle,
} from '../core/session-summary.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';

export interface PaletteEntry {
  readonly key: string;
  readonly label: string;
  /** Secondary text at the end. */
  readonly hint?: string;
  readonly icon: IconName;
  readonly run: () => void;
}

/** Maximum sessions in the palette. */
const MAX_SESSION_ENTRIES = 40;

/** Finds actions and sessions that match all words. Without text, sessions come first; waiting sessions always precede others. */
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
