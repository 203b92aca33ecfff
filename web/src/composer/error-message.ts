/** Why something failed, for people. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
