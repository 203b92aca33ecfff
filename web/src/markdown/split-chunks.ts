/**
 * Splits Markdown into chunks that are parsed independently. A chunk is final once another one follows, so a streaming
 * answer costs as much as its last chunk. Chunks are split only where parsing could not join them.
 */

export interface MarkdownChunk {
  /** Offset in the text. */
  readonly offset: number;
  readonly text: string;
  /** A fenced block, which needs no further parsing. */
  readonly fence?: { readonly language: string; readonly code: string; readonly open: boolean };
}

/** Length after which a list is split before its next item, and any text at its next line. */
const LIST_SPLIT_LENGTH = 4_096;
const MAX_CHUNK_LENGTH = 16_384;

const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
/** A fence inside list items. */
const INNER_FENCE = /^(?:\s*(?:[-*+]|\d{1,9}[.)])\s+)*\s*(`{3,}(?=[^`]*$)|~{3,})/;
/** The start of a list item; a bare number may become one. */
const ITEM = /^ {0,3}(?:[-*+](?:\s|$)|\d{1,9}(?:[.)](?:\s|$)|$))/;

export function splitChunks(text: string): readonly MarkdownChunk[] {
  const pieces: MarkdownChunk[] = [];
  let at = 0;
  while (at < text.length) {
    const line = lineAt(text, at);
    // Blank lines between chunks are dropped.
    if (isBlank(line.text)) {
      at = line.next;
      continue;
    }
    const fence = FENCE.exec(line.text);
    const piece = fence ? readFencedChunk(text, at, fence) : readTextChunk(text, at);
    pieces.push(piece);
    at += piece.text.length;
  }
  return pieces;
}

function readFencedChunk(
  text: string,
  from: number,
  [, indent = '', mark = '', info = '']: RegExpExecArray,
): MarkdownChunk {
  const begin = lineAt(text, from).next;
  const language = info.trim();
  const piece = (to: number, end: number, open: boolean): MarkdownChunk => {
    const code = removeIndent(text.slice(begin, to), indent.length).replace(/\r?\n$/, '');
    return { offset: from, text: text.slice(from, end), fence: { language, code, open } };
  };
  let at = begin;
  while (at < text.length) {
    const line = lineAt(text, at);
    if (isClosingFence(line.text, mark)) return piece(at, line.next, false);
    at = line.next;
  }
  return piece(at, at, true);
}

function readTextChunk(text: string, from: number): MarkdownChunk {
  const isList = ITEM.test(lineAt(text, from).text);
  let at = from;
  let inner = '';
  let blank = false;
  while (at < text.length) {
    const line = lineAt(text, at);
    const empty = isBlank(line.text);
    if (at > from && !empty && !inner) {
      // After a blank line only indented text, or list items in a list, continue the chunk.
      const indented = /^\s/.test(line.text);
      if (blank && !indented && !(isList && ITEM.test(line.text))) break;
      // An unindented fence ends the chunk; an indented one may belong to a list item.
      if (FENCE.test(line.text) && !(isList && indented)) break;
    }
    const long = at - from;
    if (
      long > MAX_CHUNK_LENGTH ||
      (long > LIST_SPLIT_LENGTH && isList && !inner && /^\S/.test(line.text) && ITEM.test(line.text))
    )
      break;
    if (inner) inner = isClosingFence(line.text, inner) ? '' : inner;
    else inner = INNER_FENCE.exec(line.text)?.[1] ?? '';
    blank = empty;
    at = line.next;
  }
  return { offset: from, text: text.slice(from, at) };
}

function isClosingFence(line: string, mark: string): boolean {
  const trimmed = line.trim();
  return trimmed.length >= mark.length && trimmed.startsWith(mark) && trimmed === mark.charAt(0).repeat(trimmed.length);
}

function removeIndent(code: string, by: number): string {
  return by === 0 ? code : code.replace(new RegExp(`^ {1,${by}}`, 'gm'), '');
}

function isBlank(line: string): boolean {
  return line.trim() === '';
}

function lineAt(text: string, at: number): { readonly text: string; readonly next: number } {
  const end = text.indexOf('\n', at);
  return end < 0 ? { text: text.slice(at), next: text.length } : { text: text.slice(at, end), next: end + 1 };
}
