/** Parses and edits queries in the host's search syntax: words and filters. Pure. */

export type FilterName = 'workspace' | 'after' | 'from' | 'tool' | 'file';

export type SearchFilterValues = Readonly<Partial<Record<FilterName, string>>>;

/** A term of a query, as typed. */
interface QueryTerm {
  readonly text: string;
  readonly filter?: FilterName;
  readonly value?: string;
}

const QUERY_TERM = /-?(?:(workspace|after|from|tool|file):)?("[^"]*"\*?|\S+)/g;

/** The words and filters of a query. The last value of a repeated filter wins. */
export function parseQuery(query: string): { readonly words: string; readonly filters: SearchFilterValues } {
  const terms = queryTerms(query);
  const words = terms.filter(({ filter }) => !filter).map(({ text }) => text);
  const filters: Partial<Record<FilterName, string>> = {};
  for (const { filter, value } of terms) if (filter && value) filters[filter] = value;
  return { words: words.join(' '), filters };
}

/** Sets or removes a filter of a query. */
export function withFilter(query: string, name: FilterName, value: string | undefined): string {
  const rest = queryTerms(query).filter(({ filter }) => filter !== name);
  const text = rest.map((piece) => piece.text);
  const cleanValue = value?.trim().replaceAll('"', '');
  return [...text, ...(cleanValue ? [`${name}:${/\s/.test(cleanValue) ? `"${cleanValue}"` : cleanValue}`] : [])].join(
    ' ',
  );
}

function queryTerms(query: string): readonly QueryTerm[] {
  return [...query.matchAll(QUERY_TERM)].map(([text, filter, value = '']) =>
    // Negated filters stay unchanged.
    filter && !text.startsWith('-')
      ? { text, filter: filter as FilterName, value: value.replace(/^"|"$/g, '') }
      : { text },
  );
}

/** Splits a snippet into matched and unmatched text. The ranges come from the host. */
export function highlightMatches(
  snippet: string,
  matches: readonly (readonly [number, number])[],
): readonly { readonly text: string; readonly isMatch: boolean }[] {
  const terms: { text: string; isMatch: boolean }[] = [];
  let at = 0;
  for (const [from, to] of [...matches].sort(([one], [other]) => one - other)) {
    const begin = Math.max(from, at);
    const end = Math.min(to, snippet.length);
    if (begin >= end) continue;
    if (begin > at) terms.push({ text: snippet.slice(at, begin), isMatch: false });
    terms.push({ text: snippet.slice(begin, end), isMatch: true });
    at = end;
  }
  if (at < snippet.length) terms.push({ text: snippet.slice(at), isMatch: false });
  return terms;
}
