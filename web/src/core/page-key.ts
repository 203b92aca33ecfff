/**
 * The page key: the second secret of a sign-in, beside the cookie. Browsers send cookies to every port of a host name;
 * this key is in the storage of the origin, which includes the port. It is sent as a request header and as a WebSocket
 * subprotocol, and never appears in a URL.
 */

const STORAGE_KEY = 'hostler.page-key';

/** The subprotocol that the host selects; another one carries the key. */
const SUBPROTOCOL = 'hostler.ahp';

/** The key of a browser that blocks storage, until the page closes. */
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

/** Headers of requests that need a sign-in. */
export function pageKeyHeaders(): Record<string, string> {
  const key = readPageKey();
  return key === undefined ? {} : { 'x-hostler-key': key };
}

/** Subprotocols that the WebSocket offers. */
export function webSocketProtocols(): string[] {
  const key = readPageKey();
  return key === undefined ? [] : [SUBPROTOCOL, `hostler.key.${key}`];
}
