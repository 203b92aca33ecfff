/** Copies text to the clipboard. Browsers allow it only on secure origins. */
import { strings } from '../strings.ts';

export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error(strings.common.clipboardUnavailable);
  await navigator.clipboard.writeText(text);
}
