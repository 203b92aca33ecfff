/** The way in, and what the host says of its page. */

import { expect, test } from 'vitest';
import { address, sessions } from './support/address.ts';
import { axe } from './support/axe.ts';
import { staged } from './support/staged.ts';

test(
  'a one-time link opens the page, and its code is in no address afterwards',
  staged(async (stage) => {
    const { uri } = await (await stage.client()).answered('behind a link');
    const context = await stage.context();
    const page = await context.newPage();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const code = await stage.code();
    await page.goto(`${stage.origin}${address(uri)}#link=${code}`);
    await page.getByText('You said: behind a link').waitFor();
    expect(page.url()).toBe(stage.origin + address(uri));
    expect(asked.filter((url) => url.includes(code))).toEqual([]);
    // Neither a way back nor one forward leads to it.
    expect(await page.evaluate(() => history.length)).toBe(2);
    await page.goBack();
    expect(page.url()).toBe('about:blank');
    expect(stage.hostler.log).not.toContain(code);

    // No script can read what was given for it.
    const [cookie, ...others] = await context.cookies();
    expect(others).toEqual([]);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    await page.goto(stage.origin);
    await sessions(page).waitFor();
    expect(await page.evaluate(() => document.cookie)).toBe('');
    expect(stage.hostler.log).not.toContain(cookie?.value);
  }),
);

test(
  'a browser that nobody has let in is told how, and lets itself in with a link',
  staged(async (stage) => {
    const page = await stage.open('/', await stage.context());
    await page.getByText('hostler link').waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('textbox').fill(`${stage.origin}/#link=${await stage.code()}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await sessions(page).waitFor();
    await page.reload();
    await sessions(page).waitFor();
  }),
);

test(
  'a link is good once',
  staged(async (stage) => {
    stage.guard.expect(/status of 40[13]/, /answer 40[13]: POST .*\/sign-in/);
    const code = await stage.code();
    const first = await stage.open(`/#link=${code}`, await stage.context());
    await sessions(first).waitFor();
    const second = await stage.open(`/#link=${code}`, await stage.context());
    await second.getByRole('alert').filter({ hasText: 'used up' }).waitFor();
    expect(await sessions(second).count()).toBe(0);
  }),
);

test(
  'the page comes with a strict policy, compressed, and is kept by its hash',
  staged(async (stage) => {
    const page = await stage.open('/');
    const answer = await page.reload();
    const headers = (await answer?.allHeaders()) ?? {};
    const policy = headers['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });

    const script = await page.locator('script[type=module]').first().getAttribute('src');
    const code = await page.request.get(stage.origin + script);
    expect(code.headers()['cache-control']).toContain('immutable');
    expect(code.headers()['content-encoding']).toMatch(/^(br|gzip)$/);
  }),
);

test(
  'the policy stops what a page must not do, and whoever watches sees it',
  staged(async (stage) => {
    const page = await stage.open('/');
    await sessions(page).waitFor();
    // Otherwise all the other tests would prove nothing.
    await page.evaluate(() => {
      const picture = document.createElement('img');
      picture.src = 'http://127.0.0.1:9/elsewhere.png';
      document.body.append(picture);
    });
    await expect.poll(() => stage.guard.problems.some((problem) => /content policy: img-src/.test(problem))).toBe(true);
    expect(() => stage.guard.check()).toThrow('img-src');
    stage.guard.expect(/img-src/, /another origin/, /elsewhere\.png/);
  }),
);

test(
  'somebody who signs out is at the door again, in every tab',
  staged(async (stage) => {
    const page = await stage.open('/');
    const other = await stage.open('/', page.context());
    for (const tab of [page, other]) await sessions(tab).waitFor();
    stage.guard.expect(/status of 401/, /WebSocket connection to '.*' failed/, /answer 401/);
    const client = await stage.client();
    await client.host.client.request('hostler/signOut', { channel: 'ahp-root://' });
    for (const tab of [page, other]) await tab.getByRole('button', { name: 'Sign in' }).waitFor();
  }),
);
