/** Menus, and the popover below them: keys, focus and roles. */

import { expect, test, vi } from 'vitest';
import Menu from '../../src/ui/Menu.svelte';
import { placePopover } from '../../src/ui/popover-position.ts';
import { allByRole, byRole, click, press, render, settle } from './support/render.ts';

function renderMenu(isChoice = false) {
  const run = vi.fn();
  const items = ['One', 'Two', 'Three'].map((label) => ({
    label,
    ...(isChoice && { isChecked: label === 'Two' }),
    run: () => run(label),
  }));
  render(Menu, { label: 'Actions', items });
  return { run, trigger: byRole('button', 'Actions') };
}

const focusedName = () => document.activeElement?.textContent?.trim();

test('a menu opens with the focus on its first item, and arrows move it around', async () => {
  const { trigger } = renderMenu();
  expect(trigger.getAttribute('aria-haspopup')).toBe('menu');
  expect(trigger.getAttribute('aria-expanded')).toBe('false');
  expect(allByRole('menu')).toEqual([]);
  await click(trigger);
  expect(trigger.getAttribute('aria-expanded')).toBe('true');
  expect(byRole('menu', 'Actions')).toBeTruthy();
  expect(focusedName()).toBe('One');
  const walk: (string | undefined)[] = [];
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'Home', 'End']) {
    expect((await press(key)).defaultPrevented).toBe(true);
    walk.push(focusedName());
  }
  expect(walk).toEqual(['Two', 'Three', 'One', 'Three', 'One', 'Three']);
  // Other keys are left to the browser.
  expect((await press('Tab')).defaultPrevented).toBe(false);
});

test('Escape closes the menu and returns the focus', async () => {
  const { trigger, run } = renderMenu();
  await click(trigger);
  await press('Escape');
  expect(allByRole('menu')).toEqual([]);
  expect(document.activeElement).toBe(trigger);
  expect(run).not.toHaveBeenCalled();
});

test('an item runs once, after the menu is closed and the focus is back', async () => {
  const { trigger, run } = renderMenu();
  run.mockImplementation(() => expect(document.activeElement).toBe(trigger));
  await click(trigger);
  await click(byRole('menuitem', 'Two'));
  expect(run.mock.calls).toEqual([['Two']]);
  expect(allByRole('menu')).toEqual([]);
});

test('the trigger toggles the menu, and a press elsewhere closes it without moving the focus', async () => {
  const { trigger } = renderMenu();
  await click(trigger);
  await click(trigger);
  expect(allByRole('menu')).toEqual([]);
  await click(trigger);
  const field = document.createElement('input');
  document.body.append(field);
  field.focus();
  field.dispatchEvent(new Event('pointerdown', { bubbles: true }));
  await settle();
  expect(allByRole('menu')).toEqual([]);
  expect(document.activeElement).toBe(field);
});

test('choices are radio items, and the chosen one has the focus', async () => {
  const { trigger } = renderMenu(true);
  await click(trigger);
  expect(allByRole('menuitemradio').map((item) => item.getAttribute('aria-checked'))).toEqual([
    'false',
    'true',
    'false',
  ]);
  expect(focusedName()).toBe('Two');
});

test('a popover opens on the side with room, inside the window', () => {
  const viewport = { width: 800, height: 600 };
  const panel = { width: 200, height: 300 };
  const trigger = (top: number, left: number) => ({ top, bottom: top + 30, left, right: left + 30 });
  expect(placePopover(trigger(10, 500), panel, viewport, 'below-end')).toEqual({ top: 44, right: 270, maxHeight: 548 });
  expect(placePopover(trigger(500, 500), panel, viewport, 'below-end')).toMatchObject({ bottom: 104, right: 270 });
  expect(placePopover(trigger(550, 20), panel, viewport, 'above-start')).toMatchObject({ bottom: 54, left: 20 });
  expect(placePopover(trigger(50, 20), panel, viewport, 'above-start')).toMatchObject({ top: 84, left: 20 });
  // Near an edge it keeps a distance from it.
  expect(placePopover(trigger(10, 5), panel, viewport, 'below-end').right).toBe(592);
  expect(placePopover(trigger(550, 790), panel, viewport, 'above-start').left).toBe(592);
  // With too little room on both sides, the larger one is used and the panel scrolls.
  const small = { width: 800, height: 200 };
  expect(placePopover(trigger(120, 20), panel, small, 'below-end')).toMatchObject({ bottom: 84, maxHeight: 108 });
});
