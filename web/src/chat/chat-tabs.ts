/** The chats of a session, of which there may be very many. */

import { activityOf, type ChatSummary, type Uri } from '../ahp/index.ts';

/** How many chats of sub-agents are named at once, beside those that do something. */
const RECENT = 8;

/** The chats to name: the first one, the one that is open, those that work, and the last few of the others. */
export function namedChats(
  chats: readonly ChatSummary[],
  first: Uri | undefined,
  open: Uri,
): { readonly chats: readonly ChatSummary[]; readonly left: number } {
  const seen = chats.filter((chat) => chat.interactivity !== 'hidden' || chat.resource === open);
  const isOther = ({ resource }: ChatSummary) => resource !== first;
  const recent = new Set(seen.filter(isOther).slice(-RECENT));
  const isNamed = (chat: ChatSummary) => !isOther(chat) || chat.resource === open || recent.has(chat) || isBusy(chat);
  const named = seen.filter(isNamed);
  return { chats: named, left: seen.length - named.length };
}

export function isBusy(chat: ChatSummary): boolean {
  const activity = activityOf(chat.status);
  return activity === 'inProgress' || activity === 'inputNeeded';
}
