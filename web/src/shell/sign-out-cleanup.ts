/** Clears unsent text on sign-out, in storage and in memory. Preferences stay. */

import { blockWritesAfterSignOut, STORAGE_KEY_PREFIX } from '../composer/draft-storage.ts';
import { NEW_SESSION_TEXT_KEY } from '../sessions/create-session.ts';
import { clearCardState } from '../tools/card-state.svelte.ts';
import { clearAllDrafts } from '../tools/questions/answer-drafts.svelte.ts';

type ClearableStorage = Pick<Storage, 'key' | 'length' | 'removeItem'>;

/** Removes unsent text from storage. */
export function clearStoredText(persistent: () => ClearableStorage, perTab: () => ClearableStorage): void {
  try {
    persistent().removeItem(`hostler.${NEW_SESSION_TEXT_KEY}`);
    const tab = perTab();
    const keys = Array.from({ length: tab.length }, (_, at) => tab.key(at));
    for (const key of keys) if (key?.startsWith(STORAGE_KEY_PREFIX)) tab.removeItem(key);
  } catch {
    // Storage is blocked, so nothing is stored.
  }
}

/** Clears text in memory that outlives its components. */
export function clearTextInMemory(): void {
  blockWritesAfterSignOut();
  clearCardState();
  clearAllDrafts();
}
