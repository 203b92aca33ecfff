/**
 * The page key: the second secret of a sign-in, beside the cookie. Browsers send a cookie to every port of a name; this one is
 * kept in the storage of the origin, which includes the port, and goes to the host alone: as a header of requests, and as a
 * subprotocol of the WebSocket, which takes no headers. It stands in no URL.
 */

const NAME = 'hostler.page-key';

/** The subprotocol that the host chooses; the other one carries the key. */
const SUBPROTOCOL = 'hostler.ahp';

/** Of a browser that refuses storage: it holds until the page is left. */
let unstored: string | undefined;

function pageKey(): string | undefined {
  if (unstored !== undefined) return unstored;
  try {
    return localStorage.getItem(NAME) ?? undefined;
  } catch {
    return undefined;
  }
}

export function keepPageKey(key: string): void {
  try {
    localStorage.setItem(NAME, key);
    unstored = undefined;
  } catch {
    unstored = key;
  }
}

export function forgetPageKey(): void {
  unstored = undefined;
  try {
    localStorage.removeItem(NAME);
  } catch {
    // Nothing was stored.
  }
}

/** The headers of requests that need a sign-in. */
export function keyHeaders(): Record<string, string> {
  const key = pageKey();
  return key === undefined ? {} : { 'x-hostler-key': key };
}

/** What the WebSocket offers. */
export function subprotocols(): string[] {
  const key = pageKey();
  return key === undefined ? [] : [SUBPROTOCOL, `hostler.key.${key}`];
}
