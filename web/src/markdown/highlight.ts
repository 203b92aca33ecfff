/** The code highlighter. It is large and loaded on first use. */

import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import graphql from 'highlight.js/lib/languages/graphql';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import shell from 'highlight.js/lib/languages/shell';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';
import { type CodeToken, tokenKind } from './code-tokens.ts';

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  dockerfile,
  go,
  graphql,
  ini,
  java,
  javascript,
  json,
  kotlin,
  makefile,
  markdown,
  php,
  python,
  ruby,
  rust,
  shell,
  sql,
  swift,
  typescript,
  xml,
  yaml,
});
lowlight.registerAlias({ xml: ['svelte', 'vue'], javascript: ['mjs', 'cjs'], typescript: ['mts', 'cts'] });

interface HighlightNode {
  readonly type: string;
  readonly value?: string;
  readonly properties?: { readonly className?: unknown };
  readonly children?: readonly HighlightNode[];
}

/** The tokens of code, or undefined for an unknown language. */
export function highlight(code: string, language: string): readonly CodeToken[] | undefined {
  if (!lowlight.registered(language)) return undefined;
  const tokens: CodeToken[] = [];
  collectTokens(lowlight.highlight(language, code) as HighlightNode, undefined, tokens);
  return tokens;
}

function collectTokens(node: HighlightNode, kind: CodeToken['kind'], tokens: CodeToken[]): void {
  if (node.value !== undefined) {
    const last = tokens.at(-1);
    // Adjacent tokens of one kind are merged, since every token is an element.
    if (last && last.kind === kind) tokens[tokens.length - 1] = { kind, text: last.text + node.value };
    else tokens.push({ kind, text: node.value });
    return;
  }
  const own = tokenKind(node.properties?.className) ?? kind;
  for (const child of node.children ?? []) collectTokens(child, own, tokens);
}
