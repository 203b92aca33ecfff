/** Decodes HTML entities and classifies link targets of Markdown. Pure. */

const NAMED_ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  copy: '©',
  reg: '®',
  trade: '™',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  laquo: '«',
  raquo: '»',
  bull: '•',
  middot: '·',
  times: '×',
  deg: '°',
  plusmn: '±',
  euro: '€',
  pound: '£',
  larr: '←',
  rarr: '→',
  uarr: '↑',
  darr: '↓',
  le: '≤',
  ge: '≥',
  ne: '≠',
};

/** Decodes entities; unknown names stay unchanged. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]{2,8});/g, (whole, entity: string) => {
    if (!entity.startsWith('#')) return NAMED_ENTITIES[entity] ?? whole;
    const hex = entity[1] === 'x' || entity[1] === 'X';
    const point = Number.parseInt(entity.slice(hex ? 2 : 1), hex ? 16 : 10);
    const isCharacter = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    return isCharacter ? String.fromCodePoint(point) : '\ufffd';
  });
}

const ALLOWED_PROTOCOLS = new Set(['http:', 'https:', 'mailto:']);

/** An absolute URL with an allowed protocol; model output never links into this page. */
export function safeLink(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ALLOWED_PROTOCOLS.has(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** The path of a link without a scheme or with `file:`; it is displayed, not opened. */
export function linkedFilePath(href: string): string | undefined {
  const file = /^file:(?:\/\/)?/i.exec(href);
  const path = file ? href.slice(file[0].length) : href;
  if (!file && (/^[a-z][a-z\d+.-]*:/i.test(href) || href.startsWith('#') || href.startsWith('//'))) return undefined;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
