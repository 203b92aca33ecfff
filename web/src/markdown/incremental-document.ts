/** A text and its blocks, as it grows. */

import { collectDefinitions, countMarks, parseChunk, plainBlock } from './parse.ts';
import { type MarkdownChunk, splitChunks } from './split-chunks.ts';
import { closeUnfinished } from './streaming-repair.ts';
import type { MarkdownBlock } from './syntax-tree.ts';

/** What was read together, and is never read again once something stands behind it. */
export interface MarkdownSection {
  readonly key: number;
  readonly blocks: readonly MarkdownBlock[];
}

/** How many marks are read in one text. What comes behind so many of them was not written for people. */
const MAX_DOCUMENT_MARKS = 30_000;

/** The page's own title: whatever a text begins with stands under it. */
const PAGE_TITLE_RANK = 1;

const NO_SECTIONS: readonly MarkdownSection[] = [];

export class IncrementalDocument {
  #text = '';
  #streaming = true;
  #sections: readonly MarkdownSection[] = NO_SECTIONS;
  /** Where the last section begins: only from there on a text that grows is read again. */
  #lastSectionOffset = 0;
  /** How many marks stand in front of it, and the rank of the last heading. */
  #markCount = 0;
  #lastHeadingRank = PAGE_TITLE_RANK;

  /** The sections of a text. If it only grew, all but the last one are the same objects as before. */
  update(text: string, streaming: boolean): readonly MarkdownSection[] {
    if (text === this.#text && streaming === this.#streaming) return this.#sections;
    if (!text.startsWith(this.#text)) this.#reset();
    const closed = this.#sections.slice(0, -1);
    const chunks = splitChunks(text.slice(this.#lastSectionOffset));
    const last = chunks.at(-1);
    const newSections = chunks.map((chunk, at): MarkdownSection => {
      const blocks = assignRanks(this.#parseChunk(chunk, streaming && chunk === last), this.#lastHeadingRank);
      if (chunk !== last) this.#closeChunk(chunk, blocks);
      return { key: closed.length + at, blocks };
    });
    this.#sections = [...closed, ...newSections];
    this.#lastSectionOffset += last?.offset ?? 0;
    this.#text = text;
    this.#streaming = streaming;
    if (!streaming) this.#applyDefinitions();
    return this.#sections;
  }

  #reset(): void {
    [this.#sections, this.#lastSectionOffset, this.#markCount, this.#lastHeadingRank] = [
      NO_SECTIONS,
      0,
      0,
      PAGE_TITLE_RANK,
    ];
  }

  #closeChunk({ text, fence }: MarkdownChunk, blocks: readonly MarkdownBlock[]): void {
    if (!fence) this.#markCount += countMarks(text);
    this.#lastHeadingRank = lastRank(blocks) ?? this.#lastHeadingRank;
  }

  #parseChunk(chunk: MarkdownChunk, isUnfinished: boolean): readonly MarkdownBlock[] {
    if (chunk.fence) return parseChunk(chunk);
    if (this.#markCount > MAX_DOCUMENT_MARKS) return [plainBlock(chunk.text)];
    return parseChunk(isUnfinished ? { ...chunk, text: closeUnfinished(chunk.text) } : chunk);
  }

  /** Definitions usually stand at the end: once all is there, the pieces that may use them are read with them. */
  #applyDefinitions(): void {
    if (this.#markCount > MAX_DOCUMENT_MARKS || !/^ {0,3}\[[^\]\n]+\]:/m.test(this.#text)) return;
    const chunks = splitChunks(this.#text);
    const definitions = collectDefinitions(chunks);
    const uses = ({ text, fence }: MarkdownChunk) => !fence && text.includes(']');
    let rank = PAGE_TITLE_RANK;
    this.#sections = this.#sections.map((section, at) => {
      const chunk = chunks[at];
      const blocks = chunk && uses(chunk) ? assignRanks(parseChunk(chunk, definitions), rank) : section.blocks;
      rank = lastRank(blocks) ?? rank;
      return { ...section, blocks };
    });
  }
}

function assignRanks(blocks: readonly MarkdownBlock[], before: number): readonly MarkdownBlock[] {
  let rank = before;
  return blocks.map((block) => {
    if (block.type !== 'heading') return block;
    rank = Math.min(block.level + PAGE_TITLE_RANK, rank + 1, 6);
    return { ...block, rank };
  });
}

function lastRank(blocks: readonly MarkdownBlock[]): number | undefined {
  const last = blocks.findLast((block) => block.type === 'heading');
  return last?.type === 'heading' ? last.rank : undefined;
}
