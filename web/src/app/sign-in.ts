/** Coming in: a one-time code becomes a cookie that no script can read, and a key that only this origin has. */

import { forgetPageKey, keepPageKey, keyHeaders } from './page-key.ts';
import { forgetTyped, forgetWords } from './sign-out-cleanup.ts';

/** What the host says to somebody who knocks. */
export interface Door {
  /** Whether this browser is let in. */
  readonly signedIn: boolean;
  /** Whether anybody has to sign in at all. */
  readonly required: boolean;
}

/** Takes a one-time code out of the address, so that it stays neither there nor in the history. */
export function takeCode(location: Location, history: History): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get('link');
  if (code === null) return undefined;
  history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** The code in what somebody pastes: a whole link, or only its code. */
export function codeOf(pasted: string): string | undefined {
  const text = pasted.trim();
  const code = text.includes('link=') ? text.split('link=').pop()?.split('&')[0] : text;
  return code && /^[\w.~-]+$/.test(code) ? code : undefined;
}

/** Asks whether this browser is let in. */
export async function knock(): Promise<Door> {
  const headers = { accept: 'application/json', ...keyHeaders() };
  const answer = await fetch('/sign-in', { headers, cache: 'no-store' });
  if (!answer.ok) throw new Error(await sentence(answer));
  return (await answer.json()) as Door;
}

/** Trades a code for a cookie and a key. A browser that has both already keeps them. */
export async function signIn(code: string): Promise<void> {
  const answer = await post('/sign-in', { code });
  if (answer.status === 204) return;
  const { key } = (await answer.json()) as { readonly key: string };
  keepPageKey(key);
}

export async function signOut(everywhere: boolean): Promise<void> {
  await post(everywhere ? '/sign-out?everywhere' : '/sign-out', {});
  forgetPageKey();
  // Whoever comes next finds nothing of it.
  forgetAll();
}

/** Forgets what was typed here: in storage, in memory, and as a search in the address. */
export function forgetAll(): void {
  forgetTyped();
  forgetWords(
    () => localStorage,
    () => sessionStorage,
  );
  if (location.search !== '') history.replaceState(history.state, '', location.pathname);
}

async function post(path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...keyHeaders() };
  // The host closes the page's connection before it answers: whoever leaves then is still to get, or lose, the cookie.
  const how = { method: 'POST', headers, cache: 'no-store', keepalive: true } as const;
  const answer = await fetch(path, { ...how, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await sentence(answer));
  return answer;
}

/** The host's own words. */
async function sentence(answer: Response): Promise<string> {
  const text = (await answer.text()).trim();
  return text || `The host answered ${answer.status}.`;
}
