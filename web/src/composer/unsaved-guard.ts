/** Whether a tab may be closed without a question: what only it knows would be lost. */

import { PREFIX } from './draft-storage.ts';

/** A field that somebody may have written into. */
export interface Field {
  readonly chat: string;
  /** Tells the host what can still be told; whether something is left that only this tab knows. */
  holdsBack(): boolean;
}

const fields = new Set<Field>();

/** A field is on the page until the result is called. */
export function watch(field: Field): () => void {
  fields.add(field);
  return () => fields.delete(field);
}

/** Whether something would be lost: in a field, or kept for a chat that is not open. */
export function wouldLose(shelf: () => Pick<Storage, 'key' | 'length'>): boolean {
  const held = [...fields].filter((field) => field.holdsBack());
  if (held.length > 0) return true;
  const open = new Set([...fields].map(({ chat }) => PREFIX + chat));
  try {
    const kept = shelf();
    const keys = Array.from({ length: kept.length }, (_, at) => kept.key(at));
    return keys.some((key) => key?.startsWith(PREFIX) && !open.has(key));
  } catch {
    return false;
  }
}
