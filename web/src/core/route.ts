/** Routes of the page and their URLs. Host URIs are encoded path segments. */

import type { Uri } from '../ahp/index.ts';

export type Route =
  | { readonly view: 'home' }
  | { readonly view: 'new'; readonly directory?: Uri }
  | { readonly view: 'search'; readonly query: string }
  | { readonly view: 'session'; readonly session: Uri; readonly chat?: Uri; readonly turn?: string };

/** Parses a URL; unknown URLs are the home route. */
export function parseRoute(path: string, query: string): Route {
  const parts = path.split('/').filter((part) => part !== '');
  const [view, session, chat] = parts.map(decodeSegment);
  const params = new URLSearchParams(query);
  if (view === 'new') {
    const directory = params.get('directory');
    return directory ? { view, directory } : { view };
  }
  if (view === 'search') return { view, query: params.get('q') ?? '' };
  if (view === 'session' && session) {
    const turn = params.get('turn');
    return { view, session, ...(chat && { chat }), ...(turn && { turn }) };
  }
  return { view: 'home' };
}

export function formatRoute(route: Route): string {
  switch (route.view) {
    case 'home':
      return '/';
    case 'new':
      return route.directory ? `/new?directory=${encodeURIComponent(route.directory)}` : '/new';
    case 'search':
      return route.query ? `/search?q=${encodeURIComponent(route.query)}` : '/search';
    case 'session': {
      const { session, chat, turn } = route;
      const path = ['/session', session, ...(chat ? [chat] : [])].map((part, at) =>
        at ? encodeURIComponent(part) : part,
      );
      return path.join('/') + (turn ? `?turn=${encodeURIComponent(turn)}` : '');
    }
  }
}

/** The URL may be malformed. */
function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}
