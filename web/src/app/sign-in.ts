/** Coming in: a one-time code becomes a cookie that no script can read, and a key that only this origin has. */

import { strings } from '../strings.ts';
import { clearPageKey, pageKeyHeaders, storePageKey } from './page-key.ts';
import { clearStoredText, clearTextInMemory } from './sign-out-cleanup.ts';

/** What the host says to somebody who knocks. */
export interface SignInStatus {
  /** Whether this browser is let in. */
  readonly signedIn: boolean;
  /** Whether anybody has to sign in at all. */
  readonly required: boolean;
}

/** Takes a one-time code out of the address, so that it stays neither there nor in the history. */
export function takeCodeFromUrl(location: Location, history: History): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get('link');
  if (code === null) return undefined;
  history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** The code in what somebody pastes: a whole link, or only its code. */
export function parsePastedCode(pasted: string): string | undefined {
  const text = pasted.trim();
  const code = text.includes('link=') ? text.split('link=').pop()?.split('&')[0] : text;
  return code && /^[\w.~-]+$/.test(code) ? code : undefined;
}

/** Asks whether this browser is let in. */
export async function fetchSignInStatus(): Promise<SignInStatus> {
  const headers = { accept: 'application/json', ...pageKeyHeaders() };
  const response = await fetch('/sign-in', { headers, cache: 'no-store' });
  if (!response.ok) throw new Error(await responseError(response));
  return (await response.json()) as SignInStatus;
}

/** Trades a code for a cookie and a key. A browser that has both already keeps them. */
export async function signIn(code: string): Promise<void> {
  const response = await post('/sign-in', { code });
  if (response.status === 204) return;
  const { key } = (await response.json()) as { readonly key: string };
  storePageKey(key);
}

export async function signOut(everywhere: boolean): Promise<void> {
  await post(everywhere ? '/sign-out?everywhere' : '/sign-out', {});
  clearPageKey();
  // Whoever comes next finds nothing of it.
  clearUserData();
}

/** Forgets what was typed here: in storage, in memory, and as a search in the address. */
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
  // The host closes the page's connection before it answers: whoever leaves then is still to get, or lose, the cookie.
  const options = { method: 'POST', headers, cache: 'no-store', keepalive: true } as const;
  const response = await fetch(path, { ...options, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await responseError(response));
  return response;
}

/** The host's own words. */
async function responseError(response: Response): Promise<string> {
  const text = (await response.text()).trim();
  return text || strings.signIn.httpError(response.status);
}
