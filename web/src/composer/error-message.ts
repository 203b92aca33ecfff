/** Why something failed, for people. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
