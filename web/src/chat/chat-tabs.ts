/** Selects the chats that appear as tabs; a session can have very many. Pure. */

import { activityOf, type ChatSummary, type Uri } from '../ahp/index.ts';

/** Maximum recent sub-agent tabs beside the busy ones. */
const MAX_RECENT_TABS = 8;

/** The visible tabs: the main chat, the open chat, busy chats, and the most recent others. */
export function visibleTabs(
  chats: readonly ChatSummary[],
  mainChat: Uri | undefined,
  openChat: Uri,
): { readonly chats: readonly ChatSummary[]; readonly left: number } {
  const candidates = chats.filter((chat) => chat.interactivity !== 'hidden' || chat.resource === openChat);
  const isOther = ({ resource }: ChatSummary) => resource !== mainChat;
  const recent = new Set(candidates.filter(isOther).slice(-MAX_RECENT_TABS));
  const isNamed = (chat: ChatSummary) =>
    !isOther(chat) || chat.resource === openChat || recent.has(chat) || isBusy(chat);
  const named = candidates.filter(isNamed);
  return { chats: named, left: candidates.length - named.length };
}

export function isBusy(chat: ChatSummary): boolean {
  const activity = activityOf(chat.status);
  return activity === 'inProgress' || activity === 'inputNeeded';
}
