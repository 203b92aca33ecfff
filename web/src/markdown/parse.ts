/** Parses one chunk of Markdown in bounded time, for any input. */

import { Lexer, type Token, type Tokens, type TokensList } from 'marked';
import { strings } from '../strings.ts';
import { decodeEntities, linkedFilePath, safeLink } from './entities-and-links.ts';
import type { MarkdownChunk } from './split-chunks.ts';
import type { ColumnAlignment, MarkdownBlock, MarkdownInline, MarkdownListItem } from './syntax-tree.ts';

export type LinkDefinitions = TokensList['links'];

/** Maximum nesting of blocks or inlines; deeper content is shown as source. */
const MAX_NESTING = 16;
/** Maximum number of marks in one paragraph, since pairing them takes superlinear time. */
const MAX_PARAGRAPH_MARKS = 240;
const MAX_LINE_LENGTH = 20_000;

export function parseChunk(
  chunk: MarkdownChunk,
  definitions: LinkDefinitions = emptyDefinitions(),
): readonly MarkdownBlock[] {
  if (chunk.fence) {
    const { language, code, open } = chunk.fence;
    return [{ type: 'code', text: code, language, open }];
  }
  if (isTooComplex(chunk.text)) return [plainBlock(chunk.text)];
  try {
    return convertBlocks(lex(chunk.text, definitions), 0);
  } catch {
    // The lexer can still fail on unexpected nesting.
    return [plainBlock(chunk.text)];
  }
}

/** Collects link definitions of the whole text. */
export function collectDefinitions(chunks: readonly MarkdownChunk[]): LinkDefinitions {
  const all = emptyDefinitions();
  for (const { text, fence } of chunks) {
    if (fence || !text.includes(']:') || isTooComplex(text)) continue;
    const lexer = new Lexer();
    lexer.blockTokens(text, lexer.tokens);
    for (const [name, link] of Object.entries(lexer.tokens.links)) all[name] ??= link;
  }
  return all;
}

/** Without a prototype, since names are arbitrary. */
function emptyDefinitions(): LinkDefinitions {
  return Object.create(null);
}

function lex(text: string, definitions: LinkDefinitions): Token[] {
  const lexer = new Lexer();
  lexer.tokens.links = definitions;
  return lexer.lex(text);
}

/** Counts characters that the parser has to pair or nest. */
export function countMarks(text: string): number {
  let marks = 0;
  for (const _mark of text.matchAll(/[*_[<~!`\\@>]|^\s*(?:[-+]|\d{1,9}[.)])\s/gm)) marks += 1;
  return marks;
}

/** Whether parsing could take long: very long lines, deep containers, or too many marks. */
function isTooComplex(text: string): boolean {
  let marks = 0;
  for (const line of text.split('\n')) {
    if (line.length > MAX_LINE_LENGTH) return true;
    const containers = /^(?:\s*(?:>|[-*+]\s|\d{1,9}[.)]\s))+/.exec(line)?.[0] ?? '';
    if (containers.length > 4 && containers.replace(/[\s\d.)]/g, '').length > MAX_NESTING) return true;
    if (line.trim() === '' || /^\s*(?:[-*+]\s|\d{1,9}[.)]\s|#|\||>)/.test(line)) marks = 0;
    marks += countMarks(line);
    if (marks > MAX_PARAGRAPH_MARKS) return true;
  }
  return false;
}

export function plainBlock(text: string): MarkdownBlock {
  return { type: 'plain', text: text.replace(/\s+$/, '') };
}

function convertBlocks(tokens: readonly Token[], depth: number): readonly MarkdownBlock[] {
  return tokens.flatMap((token) => convertBlock(token as Tokens.Generic, depth) ?? []);
}

function convertBlock(token: Tokens.Generic, depth: number): MarkdownBlock | undefined {
  if (depth > MAX_NESTING) return plainBlock(token.raw);
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox':
      return undefined;
    case 'heading':
      return { type: 'heading', level: token.depth, children: convertInlineContent(token, depth) };
    case 'paragraph':
      return { type: 'paragraph', children: convertInlineContent(token, depth) };
    case 'text':
      return { type: 'line', children: convertInlineContent(token, depth) };
    case 'code':
      return { type: 'code', text: token.text, language: token.lang ?? '', open: false };
    case 'blockquote':
      return { type: 'quote', children: convertBlocks(token.tokens ?? [], depth + 1) };
    case 'list':
      return convertList(token as Tokens.List, depth);
    case 'table':
      return convertTable(token as Tokens.Table, depth);
    case 'hr':
      return { type: 'rule' };
    default:
      return token.raw.trim() === '' ? undefined : plainBlock(token.raw);
  }
}

function convertList(token: Tokens.List, depth: number): MarkdownBlock {
  const items = token.items.map((item): MarkdownListItem => {
    const children = convertBlocks(item.tokens, depth + 1);
    return item.task ? { checked: item.checked === true, children } : { children };
  });
  return { type: 'list', start: token.ordered ? Number(token.start) || 0 : undefined, items };
}

function convertTable(token: Tokens.Table, depth: number): MarkdownBlock {
  const cells = (row: readonly Tokens.TableCell[]) => row.map((cell) => convertInlines(cell.tokens, depth + 1));
  const align = token.align.map((side): ColumnAlignment => side ?? undefined);
  return { type: 'table', align, header: cells(token.header), rows: token.rows.map(cells) };
}

function convertInlineContent(token: Tokens.Generic, depth: number): readonly MarkdownInline[] {
  return token.tokens
    ? convertInlines(token.tokens, depth + 1)
    : [{ type: 'text', text: decodeEntities(token.text ?? token.raw) }];
}

function convertInlines(tokens: readonly Token[], depth: number): readonly MarkdownInline[] {
  return tokens.flatMap((token) => convertInline(token as Tokens.Generic, depth));
}

function convertInline(token: Tokens.Generic, depth: number): readonly MarkdownInline[] {
  if (depth > MAX_NESTING) return [{ type: 'text', text: token.raw }];
  switch (token.type) {
    case 'text':
      return token.tokens
        ? convertInlines(token.tokens, depth + 1)
        : [{ type: 'text', text: decodeEntities(token.text) }];
    case 'escape':
      return [{ type: 'text', text: token.text }];
    case 'codespan':
      return [{ type: 'code', text: token.text }];
    case 'br':
      return [{ type: 'break' }];
    case 'strong':
    case 'em':
    case 'del':
      return [{ type: token.type, children: convertInlines(token.tokens ?? [], depth + 1) }];
    case 'link':
      return convertLink(decodeEntities(token.href), convertInlines(token.tokens ?? [], depth + 1));
    case 'image':
      // Loading a remote image would contact its server, so it becomes a link.
      return convertLink(decodeEntities(token.href), [
        { type: 'text', text: decodeEntities(token.text) || strings.markdown.image },
      ]);
    default:
      return [{ type: 'text', text: token.raw }];
  }
}

/** A safe link, a file path, or plain text. Links inside links are flattened. */
function convertLink(href: string, children: readonly MarkdownInline[]): readonly MarkdownInline[] {
  const inside = children.flatMap((child) => (child.type === 'link' ? child.children : child));
  const address = safeLink(href);
  if (address)
    return [{ type: 'link', href: address, children: inside.length ? inside : [{ type: 'text', text: href }] }];
  const path = linkedFilePath(href);
  if (!path) return inside;
  const label = inside.map((child) => ('text' in child ? child.text : '')).join('');
  if (label === '' || path.includes(label)) return [{ type: 'code', text: path }];
  return [...inside, { type: 'text', text: ' ' }, { type: 'code', text: path }];
}
