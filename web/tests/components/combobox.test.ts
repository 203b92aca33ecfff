/** The combobox: its field keeps the focus and names the selected option. */

import { beforeEach, expect, test, vi } from 'vitest';
import CommandPalette from '../../src/shell/CommandPalette.svelte';
import ComboboxExample from './support/ComboboxExample.svelte';
import { allByRole, byRole, click, press, render, renderInPage, settle, type } from './support/render.ts';

const FRUITS = ['apple', 'apricot', 'pear', ...Array.from({ length: 20 }, (_, at) => `plum ${at}`)];
const onchoose = vi.fn();

beforeEach(() => {
  onchoose.mockReset();
});

/** The option that the field names as selected. */
function selected(): string | undefined {
  const field = byRole('combobox');
  const named = document.getElementById(field.getAttribute('aria-activedescendant') ?? '');
  const marked = allByRole('option').filter((option) => option.getAttribute('aria-selected') === 'true');
  expect(marked).toEqual(named ? [named] : []);
  return named?.querySelector('.label')?.textContent ?? undefined;
}

test('the field names its list and the selected option', async () => {
  render(ComboboxExample, { options: FRUITS, onchoose });
  const field = byRole('combobox', 'Fruit');
  field.focus();
  expect(document.getElementById(field.getAttribute('aria-controls') ?? '')).toBe(byRole('listbox', 'Fruits'));
  expect(field.getAttribute('aria-autocomplete')).toBe('list');
  expect(selected()).toBe('apple');
  await press('Enter');
  expect(onchoose.mock.calls).toEqual([['apple']]);
  expect(document.activeElement).toBe(field);
});

test('single steps wrap around, pages stop at the ends', async () => {
  render(ComboboxExample, { options: FRUITS, onchoose });
  byRole('combobox').focus();
  const walk: (string | undefined)[] = [];
  for (const key of ['ArrowDown', 'ArrowUp', 'ArrowUp', 'ArrowDown', 'PageDown', 'PageUp', 'PageUp']) {
    expect((await press(key)).defaultPrevented).toBe(true);
    walk.push(selected());
  }
  expect(walk).toEqual(['apricot', 'apple', 'plum 19', 'apple', 'plum 5', 'apple', 'apple']);
  expect((await press('x')).defaultPrevented).toBe(false);
  expect((await press('Enter', { isComposing: true })).defaultPrevented).toBe(false);
  expect(onchoose).not.toHaveBeenCalled();
});

test('typing filters and selects the first option again', async () => {
  render(ComboboxExample, { options: FRUITS, onchoose });
  byRole('combobox').focus();
  await press('ArrowDown');
  await press('ArrowDown');
  await type(byRole('combobox'), 'p');
  expect(selected()).toBe('pear');
  await type(byRole('combobox'), 'nothing');
  expect(allByRole('option')).toEqual([]);
  expect(selected()).toBeUndefined();
  await press('ArrowDown');
  await press('Enter');
  expect(onchoose).not.toHaveBeenCalled();
});

test('where the typed text comes first, no option is selected until an arrow selects one', async () => {
  render(ComboboxExample, { options: FRUITS.slice(0, 2), onchoose, isTextFirst: true });
  byRole('combobox').focus();
  expect(selected()).toBeUndefined();
  const walk: (string | undefined)[] = [];
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowUp', 'ArrowUp']) {
    await press(key);
    walk.push(selected());
  }
  expect(walk).toEqual(['apple', 'apricot', 'apricot', 'apple', undefined, undefined]);
});

test('the pointer selects and chooses without taking the focus', async () => {
  render(ComboboxExample, { options: FRUITS, onchoose });
  const field = byRole('combobox');
  field.focus();
  const pear = byRole('option', /pear/);
  pear.dispatchEvent(new Event('pointermove', { bubbles: true }));
  await settle();
  expect(selected()).toBe('pear');
  const pressed = new MouseEvent('mousedown', { bubbles: true, cancelable: true });
  pear.dispatchEvent(pressed);
  expect(pressed.defaultPrevented).toBe(true);
  await click(pear);
  expect(onchoose.mock.calls).toEqual([['pear']]);
});

test('the command palette is closed before an entry runs', async () => {
  const onclose = vi.fn();
  const { container, page } = renderInPage(CommandPalette, { onclose });
  const dialog = container.querySelector('dialog');
  expect(dialog?.open).toBe(true);
  const navigate = vi.spyOn(page, 'navigate').mockImplementation(() => expect(dialog?.open).toBe(false));
  byRole('combobox').focus();
  await type(byRole('combobox'), 'new session');
  expect(selected()).toBe('New session');
  await press('Enter');
  expect(navigate).toHaveBeenCalledWith({ view: 'new' });
});
