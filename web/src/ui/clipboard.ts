/** Puts a text where it can be pasted. Browsers allow it only over HTTPS, or on the host's own machine. */
import { strings } from '../strings.ts';

export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error(strings.common.clipboardUnavailable);
  await navigator.clipboard.writeText(text);
}
