/** Words that this browser keeps for somebody: whoever signs out takes them along. */

import { blockWritesAfterSignOut, STORAGE_KEY_PREFIX } from '../composer/draft-storage.ts';
import { clearCardState } from '../tools/card-state.svelte.ts';
import { clearAllDrafts } from '../tools/questions/answer-drafts.svelte.ts';

/** What is typed for a session that was not begun yet, by its name among what the browser keeps. */
export const NEW_SESSION_TEXT_KEY = 'new.text';

type ClearableStorage = Pick<Storage, 'key' | 'length' | 'removeItem'>;

/** Forgets what was typed and not sent. Preferences stay. */
export function clearStoredText(persistent: () => ClearableStorage, perTab: () => ClearableStorage): void {
  try {
    persistent().removeItem(`hostler.${NEW_SESSION_TEXT_KEY}`);
    const tab = perTab();
    const keys = Array.from({ length: tab.length }, (_, at) => tab.key(at));
    for (const key of keys) if (key?.startsWith(STORAGE_KEY_PREFIX)) tab.removeItem(key);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}

/** Forgets what was typed and drafted and is only in memory: it outlives the parts of the page that show it. */
export function clearTextInMemory(): void {
  blockWritesAfterSignOut();
  clearCardState();
  clearAllDrafts();
}
