/** Script lines for the scripted model. */

export function scriptText(text: string): string {
  return `!say ${text.replaceAll('\n', '\\n')}`;
}

export function scriptThinking(text: string): string {
  return `!think ${text.replaceAll('\n', '\\n')}`;
}

export function scriptToolCall(name: string, input: object): string {
  return `!tool ${name} ${JSON.stringify(input)}`;
}

/** One message of several lines. */
export function scriptMessage(...lines: readonly string[]): { readonly text: string } {
  return { text: lines.join('\n') };
}
