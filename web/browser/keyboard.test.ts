/** Keyboard operation of the page. */

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { hasFlag, StatusFlag } from '../src/ahp/index.ts';
import { until } from '../tests/support/fake-server.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { createSampleSessions } from './support/sample-sessions.ts';

const browserTest = sharedHarness(async (harness) => {
  const client = await harness.connectClient();
  return { client, ...(await createSampleSessions(harness, client)) };
});

/** Tabs through the page once and returns controls that are unreachable or have no visible focus. */
async function walk(page: Page): Promise<string[]> {
  await page.evaluate(() => {
    Object.assign(window, { met: new Set(), faint: new Set() });
    (document.activeElement as HTMLElement | null)?.blur();
  });
  let rounds = 0;
  for (let step = 0; step < 120 && rounds < 2; step++) {
    await page.keyboard.press('Tab');
    // After the last control the focus moves to the page, then to the first one.
    rounds += await page.evaluate(() => {
      const { met, faint } = window as unknown as { met: Set<Element>; faint: Set<Element> };
      const now = document.activeElement;
      if (!now || now === document.body) return 1;
      if (met.has(now)) return 2;
      met.add(now);
      const { outlineStyle, outlineWidth } = getComputedStyle(now);
      // Fields show the focus by their border, others by an outline.
      const isField = now.matches('textarea, input[type=text], input[type=search]');
      if (!isField && (outlineStyle === 'none' || outlineWidth === '0px')) faint.add(now);
      return 0;
    });
  }
  return page.evaluate(() => {
    const { met, faint } = window as unknown as { met: Set<Element>; faint: Set<Element> };
    const controls = [...document.querySelectorAll<HTMLElement>('a[href], button, input, select, textarea, summary')];
    const can = ({ tabIndex }: HTMLElement) => tabIndex >= 0;
    const missed = controls.filter(
      (control) =>
        can(control) &&
        !control.matches(':disabled') &&
        control.checkVisibility({ visibilityProperty: true }) &&
        !met.has(control),
    );
    const name = (element: Element) => element.ariaLabel ?? element.textContent?.trim().slice(0, 40) ?? element.tagName;
    return [
      ...missed.map((element) => `not reached: ${element.tagName} ${name(element)}`),
      ...[...faint].map((element) => `without a ring: ${element.tagName} ${name(element)}`),
    ];
  });
}

test(
  'Tab reaches every control of every view with a visible focus',
  browserTest(async (harness, { finished, waiting, failed }) => {
    const page = await harness.openPage('/');
    const views: readonly (readonly [string, string])[] = [
      ['/', '1 session waiting for you'],
      ['/new', 'What should'],
      ['/search?q=lamp', 'lighthouse ·'],
      [sessionPath(finished), 'Nothing else calls it.'],
      [sessionPath(waiting), 'Allow once'],
      [sessionPath(failed), 'cannot be used with your account'],
    ];
    for (const [path, shows] of views) {
      await page.goto(harness.origin + path);
      await sessionsPane(page).getByText('Count the apples').waitFor();
      await page.getByText(shows).first().waitFor();
      expect(await walk(page), path).toEqual([]);
    }
  }),
);

test(
  'the session list is one tab stop with keyboard navigation and session actions',
  browserTest(async (harness, { client, failed }) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).getByText('Count the apples').waitFor();
    const rows = await sessionsPane(page).getByRole('listitem').count();
    const here = () =>
      page.evaluate(() => {
        const { activeElement, body } = document;
        return activeElement === body ? '' : (activeElement?.textContent?.trim() ?? '');
      });
    const met = new Set<string>();
    await page.keyboard.press('Control+Shift+L');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Home');
    await expect.poll(here).not.toBe('');
    met.add(await here());
    for (let at = 1; at < rows; at++) {
      await page.keyboard.press(at % 2 ? 'ArrowDown' : 'j');
      await expect.poll(async () => met.has(await here())).toBe(false);
      met.add(await here());
    }
    expect(met.size).toBe(rows);
    while (!(await here()).includes('Count the apples')) {
      const before = await here();
      await page.keyboard.press('k');
      await expect.poll(here).not.toBe(before);
    }

    await page.keyboard.press('r');
    await page.getByRole('textbox', { name: 'Session name' }).waitFor();
    await page.keyboard.type('Count the pears');
    await page.keyboard.press('Enter');
    const find = ({ items }: { items: readonly { resource: string; title: string; status: number }[] }) =>
      items.find(({ resource }) => resource === failed);
    await until(client.host.sessions.view, (view) => find(view)?.title === 'Count the pears');

    // The session's menu is the next stop.
    await expect.poll(here).toContain('Count the pears');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const menu = page.getByRole('menu', { name: 'Actions for Count the pears' });
    await menu.waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    expect(await here()).toContain('Archive');
    await page.keyboard.press('Escape');
    await menu.waitFor({ state: 'hidden' });
    expect(await page.evaluate(() => document.activeElement?.ariaLabel)).toBe('Actions for Count the pears');
    await page.keyboard.press('e');
    await until(client.host.sessions.view, (view) => hasFlag(find(view)?.status ?? 0, StatusFlag.isArchived));
    await sessionsPane(page).getByText('Count the pears').waitFor({ state: 'hidden' });
  }),
);

test(
  'the shortcuts dialog lists the keys, and the keys work',
  browserTest(async (harness, { waiting }) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    await page.keyboard.press('Control+/');
    const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await dialog.waitFor();
    // Shortcuts are inactive while a dialog is open.
    await page.keyboard.press('Control+Shift+O');
    await expect.poll(() => dialog.isVisible()).toBe(true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });

    const at = () => new URL(page.url()).pathname;
    await page.keyboard.press('Control+J');
    await page.getByRole('button', { name: 'Allow once' }).first().waitFor();
    expect(at()).toBe(sessionPath(waiting));
    // The composer has the focus; the palette works from any field.
    await page.keyboard.press('Control+K');
    await page.keyboard.type('home');
    await page.keyboard.press('Enter');
    await expect.poll(at).toBe('/');
    await page.keyboard.press('Control+Shift+O');
    await page.getByRole('textbox', { name: 'First message' }).waitFor();
    // Typing in a field triggers no shortcut.
    await page.getByRole('textbox', { name: 'First message' }).press('?');
    await expect.poll(() => page.getByRole('textbox', { name: 'First message' }).inputValue()).toBe('?');
    await expect.poll(() => dialog.count()).toBe(0);
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Control+Shift+F');
    await expect.poll(at).toBe('/search');
    await page.getByRole('searchbox', { name: 'Search all messages' }).waitFor();
  }),
);

test(
  'the command palette opens sessions and runs actions from any view',
  browserTest(async (harness, { finished, working }) => {
    const page = await harness.openPage(sessionPath(working));
    await page.getByRole('textbox', { name: 'Message' }).press('Control+K');
    const field = page.getByRole('combobox', { name: 'Session or action' });
    await field.waitFor();
    await page.keyboard.type('lamp early');
    await page.getByRole('option', { name: /The lamp goes out too early/, selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('Nothing else calls it.').waitFor();
    expect(new URL(page.url()).pathname).toBe(sessionPath(finished));

    await page.keyboard.press('Control+K');
    await page.keyboard.type('dark theme');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');

    await page.keyboard.press('Control+K');
    await page.keyboard.type('keeper');
    await page.keyboard.press('ArrowUp');
    await page.getByRole('option', { name: 'Search all messages for “keeper”', selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await expect.poll(() => page.url()).toContain('/search?q=keeper');
    await page.keyboard.press('Control+K');
    await field.waitFor();
    await page.keyboard.press('Escape');
    await field.waitFor({ state: 'hidden' });
  }),
);
