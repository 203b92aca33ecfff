/** A text and its blocks, as it grows. */

import { definitionsOf, marksIn, plain, read } from './parse.ts';
import { type Piece, split } from './split-chunks.ts';
import { mended } from './streaming-repair.ts';
import type { Block } from './syntax-tree.ts';

/** What was read together, and is never read again once something stands behind it. */
export interface Section {
  readonly key: number;
  readonly blocks: readonly Block[];
}

/** How many marks are read in one text. What comes behind so many of them was not written for people. */
const MARKS = 30_000;

/** The page's own title: whatever a text begins with stands under it. */
const TITLE = 1;

const NO_SECTIONS: readonly Section[] = [];

export class Document {
  #text = '';
  #streaming = true;
  #sections: readonly Section[] = NO_SECTIONS;
  /** Where the last section begins: only from there on a text that grows is read again. */
  #openAt = 0;
  /** How many marks stand in front of it, and the rank of the last heading. */
  #marks = 0;
  #rank = TITLE;

  /** The sections of a text. If it only grew, all but the last one are the same objects as before. */
  update(text: string, streaming: boolean): readonly Section[] {
    if (text === this.#text && streaming === this.#streaming) return this.#sections;
    if (!text.startsWith(this.#text)) this.#forget();
    const closed = this.#sections.slice(0, -1);
    const pieces = split(text.slice(this.#openAt));
    const last = pieces.at(-1);
    const fresh = pieces.map((piece, at): Section => {
      const blocks = ranked(this.#read(piece, streaming && piece === last), this.#rank);
      if (piece !== last) this.#pass(piece, blocks);
      return { key: closed.length + at, blocks };
    });
    this.#sections = [...closed, ...fresh];
    this.#openAt += last?.at ?? 0;
    this.#text = text;
    this.#streaming = streaming;
    if (!streaming) this.#define();
    return this.#sections;
  }

  #forget(): void {
    [this.#sections, this.#openAt, this.#marks, this.#rank] = [NO_SECTIONS, 0, 0, TITLE];
  }

  #pass({ text, fence }: Piece, blocks: readonly Block[]): void {
    if (!fence) this.#marks += marksIn(text);
    this.#rank = lastRank(blocks) ?? this.#rank;
  }

  #read(piece: Piece, unfinished: boolean): readonly Block[] {
    if (piece.fence) return read(piece);
    if (this.#marks > MARKS) return [plain(piece.text)];
    return read(unfinished ? { ...piece, text: mended(piece.text) } : piece);
  }

  /** Definitions usually stand at the end: once all is there, the pieces that may use them are read with them. */
  #define(): void {
    if (this.#marks > MARKS || !/^ {0,3}\[[^\]\n]+\]:/m.test(this.#text)) return;
    const pieces = split(this.#text);
    const definitions = definitionsOf(pieces);
    const uses = ({ text, fence }: Piece) => !fence && text.includes(']');
    let rank = TITLE;
    this.#sections = this.#sections.map((section, at) => {
      const piece = pieces[at];
      const blocks = piece && uses(piece) ? ranked(read(piece, definitions), rank) : section.blocks;
      rank = lastRank(blocks) ?? rank;
      return { ...section, blocks };
    });
  }
}

function ranked(blocks: readonly Block[], before: number): readonly Block[] {
  let rank = before;
  return blocks.map((block) => {
    if (block.type !== 'heading') return block;
    rank = Math.min(block.level + TITLE, rank + 1, 6);
    return { ...block, rank };
  });
}

function lastRank(blocks: readonly Block[]): number | undefined {
  const last = blocks.findLast((block) => block.type === 'heading');
  return last?.type === 'heading' ? last.rank : undefined;
}
