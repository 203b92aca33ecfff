/** Names of invisible characters. */

import { expect, test } from 'vitest';
import { messageSpans } from '../src/tools/message-spans.ts';
import { showInvisible, showInvisibleInCode } from '../src/ui/visible.ts';
import cases from './support/visible.json' with { type: 'json' };

// The command line uses the same cases.
test.each(cases.visible)('%j shows a name for each invisible character', (text, expected) => {
  expect(showInvisible(text as string)).toBe(expected);
});

test.each(cases.exact)('%j shows a count for long runs of blanks', (text, expected) => {
  expect(showInvisibleInCode(text as string)).toBe(expected);
});

test('tool call messages show a name for each invisible character', () => {
  expect(messageSpans({ markdown: 'Allow `rm \u2066x`' }).at(-1)).toEqual({ text: 'rm ⟨U+2066⟩x', isCode: true });
});
