/** Reads one piece of Markdown, whatever is in it, in a time that its length bounds. */

import { Lexer, type Token, type Tokens, type TokensList } from 'marked';
import { decoded, filePath, opens } from './entities-and-links.ts';
import type { Piece } from './split-chunks.ts';
import type { Align, Block, Inline, Item } from './syntax-tree.ts';

export type Definitions = TokensList['links'];

/** How deep lists and quotes, or words in words, may be; what is deeper is shown as it was written. */
const DEEPEST = 16;
/** How many marks that may belong together a run of lines may have: the time to pair them grows faster than their number. */
const MARKS = 240;
const LONGEST_LINE = 20_000;

export function read(piece: Piece, definitions: Definitions = none()): readonly Block[] {
  if (piece.fence) {
    const { language, code, open } = piece.fence;
    return [{ type: 'code', text: code, language, open }];
  }
  if (isHostile(piece.text)) return [plain(piece.text)];
  try {
    return blocks(lex(piece.text, definitions), 0);
  } catch {
    // Nesting that the check above did not foresee.
    return [plain(piece.text)];
  }
}

/** The addresses that are defined in some place for the whole text. */
export function definitionsOf(pieces: readonly Piece[]): Definitions {
  const all = none();
  for (const { text, fence } of pieces) {
    if (fence || !text.includes(']:') || isHostile(text)) continue;
    const lexer = new Lexer();
    lexer.blockTokens(text, lexer.tokens);
    for (const [name, link] of Object.entries(lexer.tokens.links)) all[name] ??= link;
  }
  return all;
}

/** Names are whatever somebody wrote, so nothing may be inherited. */
function none(): Definitions {
  return Object.create(null);
}

function lex(text: string, definitions: Definitions): Token[] {
  const lexer = new Lexer();
  lexer.tokens.links = definitions;
  return lexer.lex(text);
}

/** How much there is to pair and to nest: reading takes longer with each of these than with any number of letters. */
export function marksIn(text: string): number {
  let marks = 0;
  for (const _mark of text.matchAll(/[*_[<~!`\\@>]|^\s*(?:[-+]|\d{1,9}[.)])\s/gm)) marks += 1;
  return marks;
}

/** Whether reading could take long: lines without end, towers of containers, or too many marks in one run of words. */
function isHostile(text: string): boolean {
  let marks = 0;
  for (const line of text.split('\n')) {
    if (line.length > LONGEST_LINE) return true;
    const containers = /^(?:\s*(?:>|[-*+]\s|\d{1,9}[.)]\s))+/.exec(line)?.[0] ?? '';
    if (containers.length > 4 && containers.replace(/[\s\d.)]/g, '').length > DEEPEST) return true;
    if (line.trim() === '' || /^\s*(?:[-*+]\s|\d{1,9}[.)]\s|#|\||>)/.test(line)) marks = 0;
    marks += marksIn(line);
    if (marks > MARKS) return true;
  }
  return false;
}

export function plain(text: string): Block {
  return { type: 'plain', text: text.replace(/\s+$/, '') };
}

function blocks(tokens: readonly Token[], depth: number): readonly Block[] {
  return tokens.flatMap((token) => block(token as Tokens.Generic, depth) ?? []);
}

function block(token: Tokens.Generic, depth: number): Block | undefined {
  if (depth > DEEPEST) return plain(token.raw);
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox':
      return undefined;
    case 'heading':
      return { type: 'heading', level: token.depth, children: words(token, depth) };
    case 'paragraph':
      return { type: 'paragraph', children: words(token, depth) };
    case 'text':
      return { type: 'line', children: words(token, depth) };
    case 'code':
      return { type: 'code', text: token.text, language: token.lang ?? '', open: false };
    case 'blockquote':
      return { type: 'quote', children: blocks(token.tokens ?? [], depth + 1) };
    case 'list':
      return list(token as Tokens.List, depth);
    case 'table':
      return table(token as Tokens.Table, depth);
    case 'hr':
      return { type: 'rule' };
    default:
      return token.raw.trim() === '' ? undefined : plain(token.raw);
  }
}

function list(token: Tokens.List, depth: number): Block {
  const items = token.items.map((item): Item => {
    const children = blocks(item.tokens, depth + 1);
    return item.task ? { checked: item.checked === true, children } : { children };
  });
  return { type: 'list', start: token.ordered ? Number(token.start) || 0 : undefined, items };
}

function table(token: Tokens.Table, depth: number): Block {
  const cells = (row: readonly Tokens.TableCell[]) => row.map((cell) => inlines(cell.tokens, depth + 1));
  const align = token.align.map((side): Align => side ?? undefined);
  return { type: 'table', align, header: cells(token.header), rows: token.rows.map(cells) };
}

function words(token: Tokens.Generic, depth: number): readonly Inline[] {
  return token.tokens ? inlines(token.tokens, depth + 1) : [{ type: 'text', text: decoded(token.text ?? token.raw) }];
}

function inlines(tokens: readonly Token[], depth: number): readonly Inline[] {
  return tokens.flatMap((token) => inline(token as Tokens.Generic, depth));
}

function inline(token: Tokens.Generic, depth: number): readonly Inline[] {
  if (depth > DEEPEST) return [{ type: 'text', text: token.raw }];
  switch (token.type) {
    case 'text':
      return token.tokens ? inlines(token.tokens, depth + 1) : [{ type: 'text', text: decoded(token.text) }];
    case 'escape':
      return [{ type: 'text', text: token.text }];
    case 'codespan':
      return [{ type: 'code', text: token.text }];
    case 'br':
      return [{ type: 'break' }];
    case 'strong':
    case 'em':
    case 'del':
      return [{ type: token.type, children: inlines(token.tokens ?? [], depth + 1) }];
    case 'link':
      return link(decoded(token.href), inlines(token.tokens ?? [], depth + 1));
    case 'image':
      // Looking at a picture of somebody else would tell them: it is a link.
      return link(decoded(token.href), [{ type: 'text', text: decoded(token.text) || 'Picture' }]);
    default:
      return [{ type: 'text', text: token.raw }];
  }
}

/** A link that opens, the path of a file, or only its words. Links in links are none. */
function link(href: string, children: readonly Inline[]): readonly Inline[] {
  const inside = children.flatMap((child) => (child.type === 'link' ? child.children : child));
  const address = opens(href);
  if (address)
    return [{ type: 'link', href: address, children: inside.length ? inside : [{ type: 'text', text: href }] }];
  const path = filePath(href);
  if (!path) return inside;
  const label = inside.map((child) => ('text' in child ? child.text : '')).join('');
  if (label === '' || path.includes(label)) return [{ type: 'code', text: path }];
  return [...inside, { type: 'text', text: ' ' }, { type: 'code', text: path }];
}
