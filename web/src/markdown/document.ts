/** A text and its blocks, as it grows. */

import { mended } from './mend.ts';
import type { Block } from './nodes.ts';
import { definitionsOf, marksIn, plain, read } from './read.ts';
import { type Piece, split } from './split.ts';

/** What was read together, and is never read again once something stands behind it. */
export interface Section {
  readonly key: number;
  readonly blocks: readonly Block[];
}

/** How many marks are read in one text. What comes behind so many of them was not written for people. */
const MARKS = 30_000;

const NO_SECTIONS: readonly Section[] = [];

export class Document {
  #text = '';
  #streaming = true;
  #sections: readonly Section[] = NO_SECTIONS;
  /** Where the last section begins: only from there on a text that grows is read again. */
  #openAt = 0;
  /** How many marks stand in front of it. */
  #marks = 0;

  /** The sections of a text. If it only grew, all but the last one are the same objects as before. */
  update(text: string, streaming: boolean): readonly Section[] {
    if (text === this.#text && streaming === this.#streaming) return this.#sections;
    if (!text.startsWith(this.#text)) [this.#sections, this.#openAt, this.#marks] = [NO_SECTIONS, 0, 0];
    const closed = this.#sections.slice(0, -1);
    const pieces = split(text.slice(this.#openAt));
    const last = pieces.at(-1);
    const fresh = pieces.map((piece, at): Section => {
      const blocks = this.#read(piece, streaming && piece === last);
      if (piece !== last && !piece.fence) this.#marks += marksIn(piece.text);
      return { key: closed.length + at, blocks };
    });
    this.#sections = [...closed, ...fresh];
    this.#openAt += last?.at ?? 0;
    this.#text = text;
    this.#streaming = streaming;
    if (!streaming) this.#define();
    return this.#sections;
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
    this.#sections = this.#sections.map((section, at) => {
      const piece = pieces[at];
      return piece && uses(piece) ? { ...section, blocks: read(piece, definitions) } : section;
    });
  }
}
