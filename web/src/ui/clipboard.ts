/** Puts a text where it can be pasted. Browsers allow it only over HTTPS, or on the host's own machine. */
export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error('This browser does not let pages copy over plain HTTP.');
  await navigator.clipboard.writeText(text);
}
