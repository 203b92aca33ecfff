/** Sign-in, sign-out and the delivery of the page. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { findViolations } from './support/axe.ts';
import { withHarness } from './support/harness-tests.ts';
import { sessionPath, sessionsPane } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';

test(
  'a one-time link signs in, and its code disappears from the URL',
  withHarness(async (harness) => {
    const { uri } = await (await harness.connectClient()).createAnsweredSession('behind a link');
    const context = await harness.newContext();
    const page = await context.newPage();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const code = await harness.createSignInCode();
    await page.goto(`${harness.origin}${sessionPath(uri)}#link=${code}`);
    await page.getByText('You said: behind a link').waitFor();
    expect(page.url()).toBe(harness.origin + sessionPath(uri));
    expect(asked.filter((url) => url.includes(code))).toEqual([]);
    // Neither Back nor Forward leads to the code.
    expect(await page.evaluate(() => history.length)).toBe(2);
    await page.goBack();
    expect(page.url()).toBe('about:blank');
    expect(harness.host.log).not.toContain(code);

    // The cookie is not readable by scripts.
    const [cookie, ...others] = await context.cookies();
    expect(others).toEqual([]);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    await page.goto(harness.origin);
    await sessionsPane(page).waitFor();
    expect(await page.evaluate(() => document.cookie)).toBe('');
    expect(harness.host.log).not.toContain(cookie?.value);
    const key = await page.evaluate(() => localStorage.getItem('hostler.page-key'));
    expect(key).toMatch(/^[\w-]{43}$/);
    expect(asked.filter((url) => url.includes(key ?? ''))).toEqual([]);
    expect(harness.host.log).not.toContain(key);
  }),
);

test(
  'a server on another local port receives the cookie but cannot sign in with it',
  withHarness(async (harness) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    const stolen: string[] = [];
    const server = createServer((request, answer) => {
      stolen.push(request.headers.cookie ?? '');
      answer.setHeader('content-type', 'text/html').end('<title>another one</title>');
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    try {
      const { port } = server.address() as AddressInfo;
      harness.guard.expect(/another origin/);
      const other = await page.context().newPage();
      await other.goto(`http://127.0.0.1:${port}/`);
      expect(await other.evaluate(() => localStorage.getItem('hostler.page-key'))).toBe(null);
      const cookie = stolen[0] ?? '';
      expect(cookie).toContain('hostler-');
      const headers = { cookie, origin: harness.origin };
      expect(await (await fetch(`${harness.origin}/sign-in`, { headers })).json()).toMatchObject({ signedIn: false });
      const socket = new WebSocket(`${harness.origin.replace('http', 'ws')}/ahp`, { headers });
      const outcome = await new Promise((done) => {
        socket.on('unexpected-response', (_, { statusCode }) => done(statusCode));
        socket.on('open', () => done('open'));
        // A socket closed before it opened logs an error.
        socket.on('error', () => undefined);
      });
      socket.terminate();
      expect(outcome).toBe(403);
      // The page continues.
      await page.reload();
      await sessionsPane(page).waitFor();
    } finally {
      server.close();
    }
  }),
);

test(
  'a browser that lost its key shows the sign-in page and stays one browser after signing in',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    const tab = await harness.openPage('/', page.context());
    await sessionsPane(tab).waitFor();
    await page.evaluate(() => localStorage.removeItem('hostler.page-key'));
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
    await page.getByRole('textbox', { name: 'Link' }).fill(await harness.createSignInCode());
    await page.keyboard.press('Enter');
    await sessionsPane(page).waitFor();
    // Storage is shared by all tabs of an origin.
    await tab.reload();
    await sessionsPane(tab).waitFor();
    const { items } = await (await harness.connectClient()).host.client.request('hostler/listBrowserSessions', {
      channel: 'ahp-root://',
    });
    expect(items.length).toBe(1);
  }),
);

test(
  'a browser that blocks storage stays signed in until the page closes',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const context = await harness.newContext();
    await context.addInitScript(() => {
      const get = () => {
        throw new DOMException('The operation is insecure.', 'SecurityError');
      };
      Object.defineProperty(window, 'localStorage', { get });
    });
    const page = await harness.openPage(`/#link=${await harness.createSignInCode()}`, context);
    await sessionsPane(page).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
  }),
);

test(
  'an unknown browser shows instructions and signs in with a pasted link',
  withHarness(async (harness) => {
    const page = await harness.openPage('/', await harness.newContext());
    await page.getByText('hostler link').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.getByRole('textbox').fill(`${harness.origin}/#link=${await harness.createSignInCode()}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await sessionsPane(page).waitFor();
    await page.reload();
    await sessionsPane(page).waitFor();
  }),
);

test(
  'a sign-in link works once',
  withHarness(async (harness) => {
    harness.guard.expect(/status of 40[13]/, /answer 40[13]: POST .*\/sign-in/);
    const code = await harness.createSignInCode();
    const first = await harness.openPage(`/#link=${code}`, await harness.newContext());
    await sessionsPane(first).waitFor();
    const second = await harness.openPage(`/#link=${code}`, await harness.newContext());
    await second.getByRole('alert').filter({ hasText: 'used, expired or wrong' }).waitFor();
    await expect.poll(() => sessionsPane(second).count()).toBe(0);
  }),
);

test(
  'the page is served with a strict policy, compressed, and cached by hash',
  withHarness(async (harness) => {
    const page = await harness.openPage('/');
    const answer = await page.reload();
    const headers = (await answer?.allHeaders()) ?? {};
    const policy = headers['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });

    const script = await page.locator('script[type=module]').first().getAttribute('src');
    const code = await page.request.get(harness.origin + script);
    expect(code.headers()['cache-control']).toContain('immutable');
    expect(code.headers()['content-encoding']).toMatch(/^(br|gzip)$/);
  }),
);

test(
  'the content security policy blocks forbidden requests and reports them',
  withHarness(async (harness) => {
    const page = await harness.openPage('/');
    await sessionsPane(page).waitFor();
    // Proves that the guard detects violations.
    await page.evaluate(() => {
      const image = document.createElement('img');
      image.src = 'http://127.0.0.1:9/elsewhere.png';
      document.body.append(image);
    });
    await expect
      .poll(() => harness.guard.problems.some((problem) => /content policy: img-src/.test(problem)))
      .toBe(true);
    expect(() => harness.guard.check()).toThrow('img-src');
    harness.guard.expect(/img-src/, /another origin/, /elsewhere\.png/);
  }),
);

/** Console errors of a browser whose session the host ended. */
const SIGNED_OUT_ERRORS = [
  /status of 40[13]/,
  /answer 40[13]: .*\/(sign-in|ahp)/,
  /WebSocket connection to '.*' failed/,
];

/** Whether the element is on top at its position. */
function isOnTop(element: Element): boolean {
  const { x, y, width, height } = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}

test(
  'signing out everywhere shows the sign-in page in every tab and browser, and signing in returns to the session',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const { uri } = await (await harness.connectClient()).createAnsweredSession('behind the door');
    const page = await harness.openPage(sessionPath(uri));
    const tab = await harness.openPage('/search?q=door', page.context());
    const phone = await harness.openPage('/', 'phone');
    await page.getByText('You said: behind the door').waitFor();
    await page.getByRole('textbox', { name: 'Message' }).fill('half a sentence');
    await sessionsPane(phone).waitFor();
    await tab.keyboard.press('Control+,');
    await tab.getByRole('button', { name: 'Sign out everywhere' }).click();
    for (const one of [page, tab, phone]) await one.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
    // The page behind is neither visible nor focusable.
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
    expect(await findViolations(page)).toEqual([]);
    const link = page.getByRole('textbox', { name: 'Link' });
    await expect.poll(() => link.evaluate((field) => field === document.activeElement)).toBe(true);
    for (let at = 0; at < 5; at++) {
      await page.keyboard.press('Tab');
      expect(await page.evaluate(() => document.activeElement?.closest('[inert]') ?? null)).toBe(null);
    }
    const covered = page.getByText('You said: behind the door');
    expect(await covered.evaluate(isOnTop)).toBe(false);
    const refused = await page.request.get(`${harness.origin}/sign-in`);
    expect(await refused.json()).toMatchObject({ signedIn: false, required: true });

    await link.fill(`${harness.origin}/#link=${await harness.createSignInCode()}`);
    await page.keyboard.press('Enter');
    await link.waitFor({ state: 'hidden' });
    expect(await covered.evaluate(isOnTop)).toBe(true);
    expect(new URL(page.url()).pathname).toBe(sessionPath(uri));
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('half a sentence');
    // A cookie is shared by all tabs of one browser only.
    await tab.reload();
    await tab.getByRole('heading', { name: 'Search', exact: true }).waitFor();
    await expect.poll(() => phone.getByRole('heading', { name: 'Sign in to Hostler' }).isVisible()).toBe(true);
  }),
);

test(
  'the sign-in page ignores shortcuts and stores no user data',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const { uri, chat, session } = await (await harness.connectClient()).createSession();
    await chat.send(
      scriptMessage(
        scriptToolCall('Bash', { command: 'mkdir secret', description: 'A secret' }),
        scriptText('It is there.'),
      ),
    );
    const page = await harness.openPage(sessionPath(uri));
    const tab = await harness.openPage(sessionPath(uri), page.context());
    const card = (one: Page) => one.getByRole('group', { name: 'Allow Bash?', includeHidden: true });
    for (const one of [page, tab]) await card(one).waitFor();
    await tab.getByRole('button', { name: 'Menu', exact: true }).click();
    await tab.getByRole('menuitem', { name: 'Sign out' }).click();
    for (const one of [page, tab]) {
      const heading = one.getByRole('heading', { name: 'Sign in to Hostler' });
      await heading.click();
      for (const key of ['y', '1', 'n', 'Control+Shift+Enter', 'Control+k', 'Control+/']) await one.keyboard.press(key);
      await expect.poll(() => one.getByRole('dialog').count()).toBe(0);
      expect(new URL(one.url()).pathname).toBe(sessionPath(uri));
      expect(await one.title()).toBe('Hostler');
    }
    // One browser signed out; the other was signed out remotely and returns to its session.
    await expect.poll(() => card(tab).count()).toBe(0);
    await expect.poll(() => card(page).count()).toBe(1);

    await page.getByRole('textbox', { name: 'Link' }).fill(await harness.createSignInCode());
    await page.keyboard.press('Enter');
    // Earlier messages would have arrived by now.
    await session.rename('Renamed afterwards');
    await expect.poll(() => page.title()).toBe('(1) Renamed afterwards · Hostler');
    expect(chat.view.value.state?.activeTurn?.responseParts.at(-1)).toMatchObject({
      toolCall: { status: 'pending-confirmation' },
    });
    await page.getByRole('heading', { name: 'Allow Bash?' }).click();
    await page.keyboard.press('1');
    await page.getByText('It is there.', { exact: true }).waitFor();
  }),
);

test(
  'a sign-in link opened on the sign-in page signs in',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const page = await harness.openPage('/', await harness.newContext());
    await page.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
    const code = await harness.createSignInCode();
    // Only the hash changes, so the browser does not reload.
    await page.goto(`${harness.origin}/#link=${code}`);
    await sessionsPane(page).waitFor();
    expect(page.url()).toBe(`${harness.origin}/`);
    await page.goBack();
    expect(page.url()).not.toContain(code);
  }),
);

test(
  'signing out affects only this browser',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const page = await harness.openPage('/');
    const other = await harness.openPage('/');
    for (const one of [page, other]) await sessionsPane(one).waitFor();
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await expect.poll(() => page.context().cookies()).toEqual([]);
    expect(await page.evaluate(() => localStorage.getItem('hostler.page-key'))).toBe(null);
    await other.reload();
    await sessionsPane(other).waitFor();
  }),
);

test(
  'a signed-in device creates a one-time link that opens the same session',
  withHarness(async (harness) => {
    harness.guard.expect(...SIGNED_OUT_ERRORS);
    const { uri } = await (await harness.connectClient()).createAnsweredSession('from here to there');
    const page = await harness.openPage(sessionPath(uri));
    await page.getByRole('button', { name: 'Menu', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Continue on another device' }).click();
    const dialog = page.getByRole('dialog', { name: 'Continue on another device' });
    await dialog.getByRole('img', { name: 'QR code of the link' }).waitFor();
    const link = await dialog.getByRole('textbox', { name: 'Link' }).inputValue();
    expect(link.startsWith(`${harness.origin}${sessionPath(uri)}#link=`)).toBe(true);
    await dialog.getByRole('button', { name: 'New link' }).click();
    const next = dialog.getByRole('textbox', { name: 'Link' });
    await expect.poll(() => next.inputValue()).not.toBe(link);

    const phone = await (await harness.newContext('phone')).newPage();
    await phone.goto(link);
    await phone.getByText('You said: from here to there').waitFor();
    expect(phone.url()).toBe(harness.origin + sessionPath(uri));
    const late = await (await harness.newContext()).newPage();
    await late.goto(link);
    await late.getByRole('alert').filter({ hasText: 'used, expired or wrong' }).waitFor();

    // The creator of the link sees the new browser and can sign it out.
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.keyboard.press('Control+,');
    await page.getByText(/\(this browser\)/).waitFor();
    await page.getByRole('button', { name: /^Sign out (?!here|everywhere)/ }).click();
    await phone.getByRole('heading', { name: 'Sign in to Hostler' }).waitFor();
  }),
);
