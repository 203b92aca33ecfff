/** Markdown parsing: correctness, safety and speed. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeEntities, linkedFilePath, safeLink } from '../src/markdown/entities-and-links.ts';
import { IncrementalDocument } from '../src/markdown/incremental-document.ts';
import { parseChunk } from '../src/markdown/parse.ts';
import { splitChunks } from '../src/markdown/split-chunks.ts';
import { closeUnfinished } from '../src/markdown/streaming-repair.ts';
import type { MarkdownBlock, MarkdownInline } from '../src/markdown/syntax-tree.ts';

const whole = (text: string): readonly MarkdownBlock[] =>
  new IncrementalDocument().update(text, false).flatMap(({ blocks }) => blocks);
const text = (value: string): MarkdownInline => ({ type: 'text', text: value });
const paragraph = (...children: MarkdownInline[]): MarkdownBlock => ({ type: 'paragraph', children });

/** All links and text of a tree. */
function seen(nodes: readonly unknown[]): { hrefs: string[]; text: string } {
  const hrefs: string[] = [];
  let text = '';
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) walk(one);
    else if (value && typeof value === 'object') {
      const node = value as Record<string, unknown>;
      if (node.type === 'link') hrefs.push(String(node.href));
      if (typeof node.text === 'string') text += node.text;
      for (const child of Object.values(node)) walk(child);
    }
  };
  walk(nodes);
  return { hrefs, text };
}

describe('parsing', () => {
  test('headings, emphasis, code and breaks', () => {
    expect(whole('## A *b* **c** ~~d~~ `e<f>`')).toEqual([
      {
        type: 'heading',
        level: 2,
        rank: 2,
        children: [
          text('A '),
          { type: 'em', children: [text('b')] },
          text(' '),
          { type: 'strong', children: [text('c')] },
          text(' '),
          { type: 'del', children: [text('d')] },
          text(' '),
          { type: 'code', text: 'e<f>' },
        ],
      },
    ]);
    expect(whole('a  \nb')).toEqual([paragraph(text('a'), { type: 'break' }, text('b'))]);
  });

  test('nested lists, tasks and numbers', () => {
    const line = (value: string): MarkdownBlock => ({ type: 'line', children: [text(value)] });
    expect(whole('3. x\n4. y\n   - [x] done\n   - [ ] open')).toEqual([
      {
        type: 'list',
        start: 3,
        items: [
          { children: [line('x')] },
          {
            children: [
              line('y'),
              {
                type: 'list',
                start: undefined,
                items: [
                  { checked: true, children: [line('done')] },
                  { checked: false, children: [line('open')] },
                ],
              },
            ],
          },
        ],
      },
    ]);
  });

  test('tables keep their alignment', () => {
    expect(whole('| a | b |\n|:--|--:|\n| 1 | **2** |')).toEqual([
      {
        type: 'table',
        align: ['left', 'right'],
        header: [[text('a')], [text('b')]],
        rows: [[[text('1')], [{ type: 'strong', children: [text('2')] }]]],
      },
    ]);
  });

  test('a fence is open until its closing line', () => {
    expect(whole('```rust\nfn a() {}\n\n')).toEqual([
      { type: 'code', text: 'fn a() {}\n', language: 'rust', open: true },
    ]);
    expect(whole('~~~\n```\n~~~')).toEqual([{ type: 'code', text: '```', language: '', open: false }]);
    expect(whole('  ```\n  a\n    b\n  ```')).toEqual([{ type: 'code', text: 'a\n  b', language: '', open: false }]);
  });

  test('HTML is shown as text', () => {
    expect(whole('<script>alert(1)</script>')).toEqual([{ type: 'plain', text: '<script>alert(1)</script>' }]);
    expect(seen(whole('a <img src=x onerror=alert(1)> b')).text).toBe('a <img src=x onerror=alert(1)> b');
  });

  test('safe links open, file links show their path, and others become text', () => {
    expect(seen(whole('[a](https://b.c/d "t") <https://e.f> https://g.h m@i.j')).hrefs).toEqual([
      'https://b.c/d',
      'https://e.f/',
      'https://g.h/',
      'mailto:m@i.j',
    ]);
    const refused = [
      'javascript:alert(1)',
      'JaVaScRiPt:1',
      'data:text/html,x',
      'vbscript:x',
      '//evil.example',
      '#x',
      'blob:x',
    ];
    for (const href of refused) expect(whole(`[label](${href})`)).toEqual([paragraph(text('label'))]);
    expect(whole('[main.rs](src/main.rs#L1)')).toEqual([paragraph({ type: 'code', text: 'src/main.rs#L1' })]);
    expect(whole('[here](file:///a%20b)')).toEqual([
      paragraph(text('here'), text(' '), { type: 'code', text: '/a b' }),
    ]);
    expect(whole('![shot](https://a.b/c.png)')).toEqual([
      paragraph({ type: 'link', href: 'https://a.b/c.png', children: [text('shot')] }),
    ]);
  });

  test('a link definition at the end applies to earlier text', () => {
    const found = seen(whole('See [one][a] and\n\n```\n[x]: y\n```\n\n[two].\n\n[a]: https://a.b\n[two]: https://c.d'));
    expect(found.hrefs).toEqual(['https://a.b/', 'https://c.d/']);
  });

  test('known entities are decoded', () => {
    expect(decodeEntities('&amp;lt; &#65;&#x1F40E; &nope; &#0; &#xD800;')).toBe('&lt; A🐎 &nope; \ufffd \ufffd');
    expect(safeLink('java\nscript:alert(1)')).toBeUndefined();
    expect(linkedFilePath('mailto:a')).toBeUndefined();
    expect(linkedFilePath('%E0%A4%A')).toBe('%E0%A4%A');
  });
});

test('heading ranks have no gaps', () => {
  const document = new IncrementalDocument();
  document.update('### a\n\n# b', true);
  const blocks = document
    .update('### a\n\n# b\n\n#### c\n##### d\n\n## e\n\n> # f', false)
    .flatMap((section) => section.blocks);
  const ranks = blocks.map((block) => (block.type === 'heading' ? block.rank : block.type));
  expect(ranks).toEqual([2, 2, 3, 4, 3, 'quote']);
});

describe('incremental parsing', () => {
  test('closed sections are not parsed again', () => {
    const document = new IncrementalDocument();
    const before = document.update('one\n\n```js\nlet a;\n```\n\n- x\n\n- y', true);
    const after = document.update('one\n\n```js\nlet a;\n```\n\n- x\n\n- y\n\nlast', true);
    expect(before).toHaveLength(3);
    expect(after).toHaveLength(4);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after.map(({ key }) => key)).toEqual([0, 1, 2, 3]);
  });

  test('a different text starts over', () => {
    const document = new IncrementalDocument();
    document.update('one\n\ntwo', true);
    expect(document.update('three', false)).toEqual([{ key: 0, blocks: [paragraph(text('three'))] }]);
    expect(document.update('', false)).toEqual([]);
  });

  test('character by character reaches the same result', () => {
    const samples = [
      '# T\n\npara *a* `b`\nmore\n\n1. x\n\n2. y\n\n   ```sh\n   ls\n\n   pwd\n   ```\n\n3. z\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend',
      'a\n---\nb\n\n> q\n>\n> r\n\n```\ncode\n\n\nmore\n```\nafter\n***\n- [ ] t',
      '- a\n  - b\n\n    c\n\n-  d\n\n      code\n\nx [l][r]\n\n[r]: https://a.b',
    ];
    for (const sample of samples) {
      const document = new IncrementalDocument();
      for (let end = 1; end <= sample.length; end += 1) document.update(sample.slice(0, end), true);
      expect(document.update(sample, false).flatMap(({ blocks }) => blocks)).toEqual(whole(sample));
    }
  });

  test('any increments reach the same result', () => {
    const line = fc.constantFrom(
      'a',
      '',
      ' b',
      '- c',
      '  d',
      '1. e',
      '```',
      '~~~',
      '    f',
      '> g',
      '# h',
      '|i|j|',
      '|-|-|',
      '---',
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 14 }), fc.array(fc.nat(60), { maxLength: 6 }), (lines, cuts) => {
        const source = lines.join('\n');
        const document = new IncrementalDocument();
        for (const cut of [...cuts].sort((a, b) => a - b)) document.update(source.slice(0, cut), true);
        const text = seen(document.update(source, false)).text.replace(/\s/g, '');
        expect(text).toBe(seen(whole(source)).text.replace(/\s/g, ''));
      }),
      { numRuns: 2_000 },
    );
  });

  test('unfinished tables, headings and emphasis render as complete', () => {
    expect(closeUnfinished('| a | b |')).toBe('| a | b |\n|---|---|');
    expect(closeUnfinished('| a | b |\n|--')).toBe('| a | b |\n|---|---|');
    expect(closeUnfinished('| a | b |\n|---|---|\n| 1')).toBe('| a | b |\n|---|---|\n| 1');
    expect(closeUnfinished('title\n--')).toBe('title');
    expect(closeUnfinished('some **bold wor')).toBe('some **bold wor**');
    expect(closeUnfinished('some `cod')).toBe('some `cod`');
    expect(closeUnfinished('- **a** and **b')).toBe('- **a** and **b**');
    expect(closeUnfinished('2 ** 3 is eight')).toBe('2 ** 3 is eight');
  });
});

describe('hostile input', () => {
  // Generous, for slow machines; superlinear parsing would take minutes.
  const budget = 6_000;

  function reads(source: string): number {
    const before = performance.now();
    const { hrefs } = seen(whole(source));
    for (const href of hrefs) expect(href).toMatch(/^(https?|mailto):/);
    return performance.now() - before;
  }

  test('a megabyte of anything parses quickly', () => {
    const seeds = [
      '[',
      '*',
      '_',
      '`',
      '<',
      '(',
      '![',
      '**a ',
      '~',
      '\\',
      '[a](',
      '<a ',
      '&',
      '> ',
      '- ',
      '|',
      'a*',
      '*a_',
    ];
    const more = [
      'http://a',
      'a@',
      '[[a]:',
      '_a ',
      '"',
      '```\n',
      '- a\n',
      '1. a\n\n',
      '> a\n',
      '|a|b|\n',
      '[a]: b\n',
      '&#',
      ' ',
      '\n',
      'word ',
    ];
    const lines = ['*a_'.repeat(100), '[a]('.repeat(80), '<a '.repeat(100), '> '.repeat(16), 'a@'.repeat(150)].map(
      (one) => `${one}\n\n`,
    );
    const slow = [...seeds, ...more, ...lines]
      .map((seed) => [seed.slice(0, 12), Math.round(reads(seed.repeat(1_000_000 / seed.length)))] as const)
      .filter(([, took]) => took > budget);
    expect(slow).toEqual([]);
  });

  test('arbitrary text never throws and yields no unsafe link', () => {
    const part = fc.constantFrom(
      '[',
      ']',
      '(',
      ')',
      '*',
      '_',
      '`',
      '<',
      '>',
      '!',
      '#',
      '-',
      '|',
      '\n',
      ' ',
      '\t',
      'a',
      '1.',
      '&',
      ':',
      '\\',
      '~',
      'javascript:',
      'https://a',
      '\u0000',
      '\ud800',
      '🐎',
    );
    const source = fc.array(part, { maxLength: 400 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.oneof(source, fc.string({ maxLength: 300 })), (value) => {
        reads(value);
        parseChunk({ offset: 0, text: closeUnfinished(value) });
        expect(splitChunks(value).every(({ text: piece }) => piece.length > 0)).toBe(true);
      }),
      { numRuns: 1_500 },
    );
  });

  test('chunks concatenate to the text in order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('```', '\n', 'a', ' ', '- ', '~~~', '1.', '> ')).map((all) => all.join('')),
        (value) => {
          const pieces = splitChunks(value);
          for (const { offset, text: piece } of pieces) expect(value.slice(offset, offset + piece.length)).toBe(piece);
          expect(
            pieces
              .map(({ text: piece }) => piece)
              .join('')
              .replace(/\s/g, ''),
          ).toBe(value.replace(/\s/g, ''));
        },
      ),
    );
  });
});
