/** The diff of a file. */

import { expect, test } from 'vitest';
import DiffView from '../../src/tools/diff/DiffView.svelte';
import { diffFiles } from '../../src/tools/diff/line-diff.ts';
import { byRole, click, render } from './support/render.ts';

const lines = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `line ${from + at}`);
const file = (...all: readonly string[]) => `${all.join('\n')}\n`;

function show(before: string | undefined, after: string | undefined): HTMLElement {
  const diff = diffFiles(before, after);
  if (!diff) throw new Error('too long');
  return render(DiffView, { diff, label: 'a.txt' });
}

const rows = (container: HTMLElement) =>
  [...container.querySelectorAll('tr:not(.fold)')].map((row) =>
    [...row.querySelectorAll('td')].map((cell) => cell.textContent).join('|'),
  );

test('changed lines have a sign and their numbers', () => {
  const container = show(file('one', 'two', 'three'), file('one', 'TWO', 'three', 'four'));
  expect(byRole('group', 'Changes in a.txt')).toBeTruthy();
  expect(rows(container)).toEqual(['1|1| |one', '2||−|two', '|2|+|TWO', '3|3| |three', '|4|+|four']);
  expect(container.querySelectorAll('tr.added').length).toBe(2);
});

test('changed words of similar lines are marked', () => {
  const container = show(file('the quick brown fox'), file('the quick red fox'));
  expect([...container.querySelectorAll('mark')].map((mark) => mark.textContent)).toEqual(['brown', 'red']);
});

test('unchanged lines are folded, and expand on a click', async () => {
  const container = show(file(...lines(0, 30), 'end'), file(...lines(0, 30), 'END'));
  expect(rows(container).length).toBe(5);
  await click(byRole('button', 'Show 27 unchanged lines'));
  expect(rows(container).length).toBe(32);
  expect(() => byRole('button')).toThrow();
});

test('a long diff is rendered in parts', async () => {
  const container = show(undefined, file(...lines(0, 450)));
  expect(rows(container).length).toBe(400);
  await click(byRole('button', 'Show 50 more of 50 rows'));
  expect(rows(container).length).toBe(450);
});

test('a missing final newline and invisible characters are visible', () => {
  const container = show(file('a'), 'a');
  expect(container.textContent).toContain('No newline at end of file after the change.');
  expect(show(file('x'), file('x\u200b')).textContent).toContain('⟨U+200B⟩');
});
