/** The chats of a session, of which there may be very many. */

import { activityOf, type ChatSummary, type Uri } from '../ahp/index.ts';

/** How many chats of sub-agents are named at once, beside those that do something. */
const MAX_RECENT_TABS = 8;

/** The chats to name: the first one, the one that is open, those that work, and the last few of the others. */
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
