/** Lines for the scripted model. */

export function say(text: string): string {
  return `!say ${text.replaceAll('\n', '\\n')}`;
}

export function think(text: string): string {
  return `!think ${text.replaceAll('\n', '\\n')}`;
}

export function tool(name: string, input: object): string {
  return `!tool ${name} ${JSON.stringify(input)}`;
}

/** One message of several lines. */
export function script(...lines: readonly string[]): { readonly text: string } {
  return { text: lines.join('\n') };
}
