/** Themes, reduced motion, responsive layout and installation. */

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { createSampleSessions } from './support/sample-sessions.ts';

const browserTest = sharedHarness(async (harness) => createSampleSessions(harness, await harness.connectClient()));

/** Background lightness from 0 to 1. */
function backgroundLightness(page: Page): Promise<number> {
  return page.evaluate(() => {
    const [red = 0, green = 0, blue = 0] =
      getComputedStyle(document.body)
        .backgroundColor.match(/[\d.]+/g)
        ?.map(Number) ?? [];
    return (red + green + blue) / (3 * 255);
  });
}

test(
  'the theme follows the system until the user chooses one, which applies before the first paint',
  browserTest(async (harness) => {
    const context = await harness.signIn(await harness.newContext('desktop', { colorScheme: 'light' }));
    // The theme when the body is created.
    await context.addInitScript(() => {
      const watch = new MutationObserver(() => {
        if (!document.body) return;
        watch.disconnect();
        Object.assign(window, { first: document.documentElement.dataset.theme ?? 'none' });
      });
      watch.observe(document, { childList: true, subtree: true });
    });
    const page = await harness.openPage('/', context);
    await sessionsPane(page).waitFor();
    const first = () => page.evaluate(() => (window as unknown as { first: string }).first);
    expect(await backgroundLightness(page)).toBeGreaterThan(0.8);
    expect(await first()).toBe('none');
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await backgroundLightness(page)).toBeLessThan(0.2);

    await page.emulateMedia({ colorScheme: 'light' });
    await page.keyboard.press('Control+,');
    await page.getByRole('radio', { name: 'Dark' }).check();
    expect(await backgroundLightness(page)).toBeLessThan(0.2);
    await page.reload();
    expect(await first()).toBe('dark');
    await sessionsPane(page).waitFor();
    expect(await backgroundLightness(page)).toBeLessThan(0.2);
    // Browser controls follow the theme.
    expect(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)).toBe('dark');
    const around = page.locator('meta[name=theme-color][media*=light]');
    expect(await around.getAttribute('content')).toBe(await around.getAttribute('data-dark'));

    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Light theme' }).click();
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await backgroundLightness(page)).toBeGreaterThan(0.8);
    await page.keyboard.press('Control+,');
    await page.getByRole('radio', { name: 'System' }).check();
    expect(await backgroundLightness(page)).toBeLessThan(0.2);
  }),
);

test(
  'reduced motion disables animations',
  browserTest(async (harness, { working }) => {
    const page = await harness.openPage(sessionPath(working));
    await page.getByText('What I found so far').waitFor();
    await sessionsPane(page).getByText('Working').first().waitFor();
    const moving = () =>
      page.evaluate(() => document.getAnimations().filter(({ playState }) => playState === 'running').length);
    // Proves that the check detects animations.
    await expect.poll(moving).toBeGreaterThan(0);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await expect.poll(moving).toBe(0);
    await page.reload();
    await page.getByText('What I found so far').waitFor();
    const most = await page.evaluate(async () => {
      let most = 0;
      const count = () => document.getAnimations().filter(({ playState }) => playState === 'running').length;
      for (let frame = 0; frame < 30; frame++) {
        most = Math.max(most, count());
        await new Promise(requestAnimationFrame);
      }
      return most;
    });
    expect(most).toBe(0);
  }),
);

test(
  'a phone shows either the list or a session, with a way back',
  browserTest(async (harness, { finished, failed }) => {
    const page = await harness.openPage('/', 'phone');
    await sessionsPane(page).getByText('The lamp goes out too early').tap();
    await page.getByText('Nothing else calls it.').waitFor();
    await expect.poll(() => sessionsPane(page).isVisible()).toBe(false);
    expect(new URL(page.url()).pathname).toBe(sessionPath(finished));
    await page.getByRole('button', { name: 'Back' }).tap();
    await sessionsPane(page).getByText('Count the apples').waitFor();
    await expect.poll(() => page.getByText('Nothing else calls it.').isVisible()).toBe(false);

    // The phone's Back does the same.
    await sessionsPane(page).getByText('Count the apples').tap();
    await page.getByText('cannot be used with your account').waitFor();
    await page.goBack();
    await sessionsPane(page).getByText('Count the apples').waitFor();

    // A page opened by a link also has a list to go back to.
    const other = await harness.openPage(sessionPath(failed), page.context());
    await other.getByText('cannot be used with your account').waitFor();
    await other.getByRole('button', { name: 'Back' }).tap();
    await sessionsPane(other).getByText('Count the apples').waitFor();
    expect(new URL(other.url()).pathname).toBe('/');
  }),
);

test(
  'on a phone everything fits, and touch targets are large enough',
  browserTest(async (harness, { finished, waiting }) => {
    const page = await harness.openPage('/', 'phone');
    const problems: string[] = [];
    const look = async (place: string) => {
      const found = await page.evaluate(() => {
        const problems: string[] = [];
        const { scrollWidth, clientWidth } = document.documentElement;
        if (scrollWidth > clientWidth) problems.push(`is ${scrollWidth} wide instead of ${clientWidth}`);
        for (const control of document.querySelectorAll<HTMLElement>('button, select, input, summary, [role=option]')) {
          if (!control.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
          // A control with a label is as large as its label.
          const box = (control.closest('label') ?? control).getBoundingClientRect();
          if (box.width <= 2 || box.height <= 2) continue;
          const name = control.ariaLabel ?? control.title ?? '';
          if (Math.min(box.width, box.height) < 39.5)
            problems.push(
              `${control.tagName} “${(name || control.textContent || '').trim().slice(0, 40)}” is ${Math.round(box.width)}×${Math.round(box.height)}`,
            );
        }
        return problems;
      });
      problems.push(...found.map((what) => `${place}: ${what}`));
    };
    await sessionsPane(page).getByText('Count the apples').waitFor();
    await look('list');
    await page.goto(`${harness.origin}/new`);
    await page.getByRole('combobox', { name: 'Permission mode' }).waitFor();
    await look('new');
    await page.getByRole('button', { name: /^Folder:/ }).tap();
    await page.getByRole('dialog').getByRole('option').first().waitFor();
    await look('folders');
    await page.goto(`${harness.origin}/search?q=lamp`);
    await page.locator('mark').first().waitFor();
    await look('search');
    await page.goto(harness.origin + sessionPath(finished));
    await page.getByText('Nothing else calls it.').waitFor();
    await look('session');
    await page.goto(harness.origin + sessionPath(waiting));
    await page.getByRole('button', { name: 'Allow once' }).first().waitFor();
    await look('question');
    await page.goto(harness.origin);
    await page.getByRole('button', { name: 'Menu', exact: true }).tap();
    await look('menu');
    await page.getByRole('menuitem', { name: 'Settings' }).tap();
    await page.getByRole('button', { name: 'Sign out everywhere' }).waitFor();
    await look('settings');
    expect(problems).toEqual([]);
  }),
);

test(
  'the page is installable: the manifest is valid and matches its icons',
  browserTest(async (harness) => {
    const page = await harness.openPage('/');
    const debug = await page.context().newCDPSession(page);
    const { url, errors, data } = await debug.send('Page.getAppManifest');
    expect(url).toBe(`${harness.origin}/manifest.webmanifest`);
    expect(errors).toEqual([]);
    const { installabilityErrors } = await debug.send('Page.getInstallabilityErrors');
    // Test browsers are incognito, which prevents installation.
    expect(installabilityErrors.filter(({ errorId }) => errorId !== 'in-incognito')).toEqual([]);

    const manifest = JSON.parse(data ?? '{}');
    expect(manifest).toMatchObject({ name: 'Hostler', display: 'standalone', start_url: '/', scope: '/' });
    const touch = await page.locator('link[rel=apple-touch-icon]').getAttribute('href');
    const icons: { src: string; type: string; sizes: string }[] = [
      ...manifest.icons,
      { src: touch, type: 'image/png', sizes: '180x180' },
    ];
    for (const { src, type, sizes } of icons) {
      const answer = await page.request.get(harness.origin + src);
      expect(answer.status(), src).toBe(200);
      expect(answer.headers()['content-type'], src).toContain(type);
      const size = await page.evaluate(async (src) => {
        const image = new Image();
        image.src = src;
        await image.decode();
        return `${image.naturalWidth}x${image.naturalHeight}`;
      }, src);
      if (sizes !== 'any') expect(size, src).toBe(sizes);
    }
    for (const { url } of manifest.shortcuts) {
      await page.goto(harness.origin + url);
      await page.getByRole('heading', { name: 'New session' }).waitFor();
    }
  }),
);
