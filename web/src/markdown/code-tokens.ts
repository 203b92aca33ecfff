/** Token kinds of highlighted code and language detection. Small, so that it can load before the highlighter. */

const TOKEN_KINDS = {
  keyword: 'keyword',
  built_in: 'keyword',
  literal: 'number',
  number: 'number',
  symbol: 'number',
  string: 'string',
  regexp: 'string',
  subst: 'text',
  comment: 'comment',
  quote: 'comment',
  doctag: 'comment',
  meta: 'comment',
  title: 'title',
  section: 'title',
  name: 'title',
  type: 'type',
  class: 'type',
  'selector-tag': 'keyword',
  'selector-class': 'attribute',
  'selector-id': 'attribute',
  attr: 'attribute',
  attribute: 'attribute',
  property: 'attribute',
  variable: 'attribute',
  'template-variable': 'attribute',
  addition: 'added',
  deletion: 'removed',
} as const;

export type CodeTokenKind = (typeof TOKEN_KINDS)[keyof typeof TOKEN_KINDS];

/** A piece of code with one kind. */
export interface CodeToken {
  readonly kind: CodeTokenKind | undefined;
  readonly text: string;
}

/** The token kind for the class names of a highlighter node. */
export function tokenKind(classes: unknown): CodeTokenKind | undefined {
  if (!Array.isArray(classes)) return undefined;
  for (const one of classes) {
    const name = String(one).replace(/^hljs-/, '');
    if (Object.hasOwn(TOKEN_KINDS, name)) return TOKEN_KINDS[name as keyof typeof TOKEN_KINDS];
  }
  return undefined;
}

/** Longer code is not highlighted: it takes too long, and every token is an element. */
const MAX_HIGHLIGHT_LENGTH = 100_000;

export function canHighlight(code: string, language: string): boolean {
  return language !== '' && code.length <= MAX_HIGHLIGHT_LENGTH;
}

const LANGUAGE_BY_FILE_NAME: Readonly<Record<string, string>> = {
  dockerfile: 'dockerfile',
  makefile: 'makefile',
  gnumakefile: 'makefile',
  'cargo.lock': 'toml',
};

/** The language of a fence's info string or a file name. */
export function detectLanguage(info: string): string {
  const word =
    info
      .trim()
      .split(/[\s{,]/, 1)[0]
      ?.toLowerCase() ?? '';
  const file = word.split('/').at(-1) ?? '';
  return LANGUAGE_BY_FILE_NAME[file] ?? (file.includes('.') ? (file.split('.').at(-1) ?? '') : file);
}
