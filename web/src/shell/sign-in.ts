/** Sign-in and sign-out requests. A one-time code becomes an HttpOnly cookie and a page key of this origin. */

import { clearPageKey, pageKeyHeaders, storePageKey } from '../core/page-key.ts';
import { strings } from '../strings.ts';
import { clearStoredText, clearTextInMemory } from './sign-out-cleanup.ts';

/** The sign-in status of this browser. */
export interface SignInStatus {
  /** Whether this browser is signed in. */
  readonly signedIn: boolean;
  /** Whether the host requires a sign-in. */
  readonly required: boolean;
}

/** Removes a one-time code from the URL and the history, and returns it. */
export function takeCodeFromUrl(location: Location, history: History): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get('link');
  if (code === null) return undefined;
  history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** The code in pasted text: a whole link or only its code. */
export function parsePastedCode(pasted: string): string | undefined {
  const text = pasted.trim();
  const code = text.includes('link=') ? text.split('link=').pop()?.split('&')[0] : text;
  return code && /^[\w.~-]+$/.test(code) ? code : undefined;
}

/** Fetches the sign-in status. */
export async function fetchSignInStatus(): Promise<SignInStatus> {
  const headers = { accept: 'application/json', ...pageKeyHeaders() };
  const response = await fetch('/sign-in', { headers, cache: 'no-store' });
  if (!response.ok) throw new Error(await responseError(response));
  return (await response.json()) as SignInStatus;
}

/** Exchanges a code for a cookie and a key. A browser that is signed in keeps its own. */
export async function signIn(code: string): Promise<void> {
  const response = await post('/sign-in', { code });
  if (response.status === 204) return;
  const { key } = (await response.json()) as { readonly key: string };
  storePageKey(key);
}

export async function signOut(everywhere: boolean): Promise<void> {
  await post(everywhere ? '/sign-out?everywhere' : '/sign-out', {});
  clearPageKey();
  // The next user finds no data.
  clearUserData();
}

/** Clears typed text: in storage, in memory, and the search query in the URL. */
export function clearUserData(): void {
  clearTextInMemory();
  clearStoredText(
    () => localStorage,
    () => sessionStorage,
  );
  if (location.search !== '') history.replaceState(history.state, '', location.pathname);
}

async function post(path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...pageKeyHeaders() };
  // The host closes the page's connection before it responds, so the request must survive navigation.
  const options = { method: 'POST', headers, cache: 'no-store', keepalive: true } as const;
  const response = await fetch(path, { ...options, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await responseError(response));
  return response;
}

/** The host's error message, or the HTTP status. */
async function responseError(response: Response): Promise<string> {
  const text = (await response.text()).trim();
  return text || strings.signIn.httpError(response.status);
}
