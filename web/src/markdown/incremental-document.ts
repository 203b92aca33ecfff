/** Incremental Markdown document: reparses only the last section of a growing text. */

import { collectDefinitions, countMarks, parseChunk, plainBlock } from './parse.ts';
import { type MarkdownChunk, splitChunks } from './split-chunks.ts';
import { closeUnfinished } from './streaming-repair.ts';
import type { MarkdownBlock } from './syntax-tree.ts';

/** Blocks that were parsed together; never reparsed once another section follows. */
export interface MarkdownSection {
  readonly key: number;
  readonly blocks: readonly MarkdownBlock[];
}

/** Maximum number of marks in a document; text beyond it is shown as plain text. */
const MAX_DOCUMENT_MARKS = 30_000;

/** The page title is rank 1, so headings start below it. */
const PAGE_TITLE_RANK = 1;

const NO_SECTIONS: readonly MarkdownSection[] = [];

export class IncrementalDocument {
  #text = '';
  #streaming = true;
  #sections: readonly MarkdownSection[] = NO_SECTIONS;
  /** Offset of the last section; only text from here on is reparsed. */
  #lastSectionOffset = 0;
  /** Number of marks before it, and the rank of the last heading. */
  #markCount = 0;
  #lastHeadingRank = PAGE_TITLE_RANK;

  /** The sections of a text. If it only grew, all but the last keep their identity. */
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

  /** Link definitions often come last, so complete documents are reparsed where they apply. */
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
