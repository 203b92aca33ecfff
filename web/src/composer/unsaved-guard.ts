/** Warns before a tab with unsaved text closes. */

import { STORAGE_KEY_PREFIX } from './draft-storage.ts';

/** A registered message field. */
export interface GuardedField {
  readonly chat: string;
  /** Saves what can be saved and returns whether unsaved text remains. */
  flushAndCheck(): boolean;
}

const guardedFields = new Set<GuardedField>();

/** Registers a field; the result unregisters it. */
export function guardField(field: GuardedField): () => void {
  guardedFields.add(field);
  return () => guardedFields.delete(field);
}

/** Whether closing the tab loses text in a field or in the stored draft of a chat that is not open. */
export function hasUnsavedText(getStorage: () => Pick<Storage, 'key' | 'length'>): boolean {
  const unsavedFields = [...guardedFields].filter((field) => field.flushAndCheck());
  if (unsavedFields.length > 0) return true;
  const open = new Set([...guardedFields].map(({ chat }) => STORAGE_KEY_PREFIX + chat));
  try {
    const storage = getStorage();
    const keys = Array.from({ length: storage.length }, (_, at) => storage.key(at));
    return keys.some((key) => key?.startsWith(STORAGE_KEY_PREFIX) && !open.has(key));
  } catch {
    return false;
  }
}
