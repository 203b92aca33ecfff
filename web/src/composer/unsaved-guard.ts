/** Whether a tab may be closed without a question: what only it knows would be lost. */

import { STORAGE_KEY_PREFIX } from './draft-storage.ts';

/** A field that somebody may have written into. */
export interface GuardedField {
  readonly chat: string;
  /** Tells the host what can still be told; whether something is left that only this tab knows. */
  flushAndCheck(): boolean;
}

const guardedFields = new Set<GuardedField>();

/** A field is on the page until the result is called. */
export function guardField(field: GuardedField): () => void {
  guardedFields.add(field);
  return () => guardedFields.delete(field);
}

/** Whether something would be lost: in a field, or kept for a chat that is not open. */
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
