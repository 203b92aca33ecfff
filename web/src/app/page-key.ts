/**
 * The page key: the second secret of a sign-in, beside the cookie. Browsers send a cookie to every port of a name; this one is
 * kept in the storage of the origin, which includes the port, and goes to the host alone: as a header of requests, and as a
 * subprotocol of the WebSocket, which takes no headers. It stands in no URL.
 */

const STORAGE_KEY = 'hostler.page-key';

/** The subprotocol that the host chooses; the other one carries the key. */
const SUBPROTOCOL = 'hostler.ahp';

/** Of a browser that refuses storage: it holds until the page is left. */
let inMemoryKey: string | undefined;

function readPageKey(): string | undefined {
  if (inMemoryKey !== undefined) return inMemoryKey;
  try {
    return localStorage.getItem(STORAGE_KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

export function storePageKey(key: string): void {
  try {
    localStorage.setItem(STORAGE_KEY, key);
    inMemoryKey = undefined;
  } catch {
    inMemoryKey = key;
  }
}

export function clearPageKey(): void {
  inMemoryKey = undefined;
  try {
    localStorage.removeItem(STORAGE_KEY);
  } catch {
    // Nothing was stored.
  }
}

/** The headers of requests that need a sign-in. */
export function pageKeyHeaders(): Record<string, string> {
  const key = readPageKey();
  return key === undefined ? {} : { 'x-hostler-key': key };
}

/** What the WebSocket offers. */
export function webSocketProtocols(): string[] {
  const key = readPageKey();
  return key === undefined ? [] : [SUBPROTOCOL, `hostler.key.${key}`];
}
