import { expect, test } from 'vitest';
import { messageSpans } from '../src/tools/message-spans.ts';
import { showInvisible, showInvisibleInCode } from '../src/ui/visible.ts';
import cases from './support/visible.json' with { type: 'json' };

// The command line's approvals are checked with the same cases.
test.each(cases.visible)('%j is shown with a name for each sign that cannot be seen', (text, expected) => {
  expect(showInvisible(text as string)).toBe(expected);
});

test.each(cases.exact)(
  '%j is shown with its blanks counted where they push the rest out of sight',
  (text, expected) => {
    expect(showInvisibleInCode(text as string)).toBe(expected);
  },
);

test('the sentence about a call has names for them, too', () => {
  expect(messageSpans({ markdown: 'Allow `rm \u2066x`' }).at(-1)).toEqual({ text: 'rm ⟨U+2066⟩x', isCode: true });
});
