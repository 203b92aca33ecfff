/** Cards of pending requests: content, keys and navigation. */

import type { Locator, Page, WebSocketRoute } from 'playwright-core';
import { expect, test } from 'vitest';
import type { Chat } from '../src/ahp/index.ts';
import { until } from '../tests/support/fake-server.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { scriptMessage, scriptText, scriptToolCall } from './support/model-script.ts';

const browserTest = sharedHarness();

const LONG = Array.from({ length: 120 }, (_, at) => `Paragraph ${at + 1}.`).join('\n\n');

function card(page: Page): Locator {
  return page.getByRole('group', { name: 'Allow Bash?' });
}

function bash(command: string): string {
  return scriptToolCall('Bash', { command, description: 'A command' });
}

/** Whether the last call of a chat is pending. */
function waits(chat: Chat): boolean {
  const part = chat.view.value.state?.activeTurn?.responseParts.at(-1);
  return part?.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation';
}

/** Whether an element is entirely inside the visible conversation. */
function isInside(element: Element): boolean {
  const frame = element.closest('[role="region"]')?.getBoundingClientRect();
  const { top, bottom } = element.getBoundingClientRect();
  return frame !== undefined && top >= frame.top && bottom <= frame.bottom;
}

test(
  'a card shows its whole command',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri), 'phone');
    await chat.send(
      scriptMessage(bash(`echo hello${' '.repeat(300)}; mkdir important\u202etxt.exe`), scriptText('Done.')),
    );
    const code = card(page).getByRole('group', { name: 'Code in sh' });
    await code.getByText('⟨300 blanks⟩').waitFor();
    await expect.poll(() => code.textContent()).toBe('echo hello ⟨300 blanks⟩ ; mkdir important⟨U+202E⟩txt.exe');
    expect(await code.evaluate((box) => box.scrollWidth <= box.clientWidth)).toBe(true);
    expect(await card(page).textContent()).not.toContain('\u202e');
  }),
);

test(
  'no key answers a card that is scrolled away or merely visible',
  browserTest(async (harness) => {
    const { uri, chat } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await chat.send(scriptMessage(scriptText(LONG), bash('mkdir unseen'), scriptText('It is allowed.')));
    await card(page).waitFor();
    // The card is just below the edge, behind the composer.
    await page.getByRole('region', { name: 'Conversation' }).evaluate((scroller) => {
      const top = scroller.querySelector('[role="group"][aria-labelledby]')?.getBoundingClientRect().top ?? 0;
      scroller.scrollTop -= scroller.getBoundingClientRect().bottom - top + 4;
    });
    await page.getByRole('region', { name: 'Pending requests' }).waitFor();
    const typed = async (text: string) => {
      await until(chat.view, ({ state }) => (state?.draft?.text ?? '') === text);
      expect(waits(chat)).toBe(true);
    };
    await page.getByRole('region', { name: 'Conversation' }).focus();
    for (const key of ['Control+Shift+Enter', 'Control+Shift+X', '1', '0', 'y']) await page.keyboard.press(key);
    // The draft arrives after everything the page sent before it.
    await typed('10y');
    await card(page).getByRole('button', { name: 'Allow once' }).scrollIntoViewIfNeeded();
    await page.getByRole('region', { name: 'Pending requests' }).waitFor({ state: 'hidden' });
    await page.getByRole('region', { name: 'Conversation' }).focus();
    await page.keyboard.type('yes, 1');
    await typed('10yyes, 1');
    await card(page).getByText('Ctrl+Shift+↵').waitFor();
    await page.keyboard.press('Control+Shift+Enter');
    await page.getByText('It is allowed.', { exact: true }).waitFor();
  }),
);

test(
  'a pending request in a long turn can be scrolled to repeatedly from anywhere',
  browserTest(async (harness) => {
    const client = await harness.connectClient();
    const { uri, chat } = await client.createAnsweredSession(
      ...Array.from({ length: 4 }, () => scriptMessage(scriptText(LONG)).text),
    );
    await chat.send(scriptMessage(scriptText(LONG), bash('mkdir far'), scriptText('It is allowed.')));
    await until(chat.view, () => waits(chat));
    const page = await harness.openPage(sessionPath(uri));
    await card(page).waitFor();
    const show = page.getByRole('region', { name: 'Pending requests' }).getByRole('button', { name: 'Show' });
    const scroller = page.getByRole('region', { name: 'Conversation' });
    const go = async (by: number) => {
      await scroller.hover();
      await page.mouse.wheel(0, by);
      await show.waitFor();
    };

    // The turn is still rendered.
    await go(-1500);
    await show.click();
    await expect.poll(() => card(page).evaluate(isInside)).toBe(true);
    for (let time = 0; time < 2; time++) {
      // The turn is no longer rendered.
      await go(-100_000);
      await expect.poll(() => card(page).count()).toBe(0);
      await show.click();
      await card(page).waitFor();
      await expect.poll(() => card(page).evaluate(isInside)).toBe(true);
      await expect.poll(() => card(page).evaluate((element) => element === document.activeElement)).toBe(true);
      expect(await card(page).evaluate(isInside)).toBe(true);
    }
    await page.keyboard.press('1');
    await page.getByText('It is allowed.', { exact: true }).waitFor();
  }),
);

test(
  'code stays readable when the highlighter cannot load, and an updated host offers a reload',
  browserTest(async (harness) => {
    harness.guard.expect(/highlight-.*\.js/, /status of 404/);
    const { uri } = await (await harness.connectClient()).createAnsweredSession(
      scriptMessage(scriptText('```rust\nfn main() {}\n```')).text,
    );
    const context = await harness.signIn(await harness.newContext());
    await context.route(/highlight-.*\.js/, (route) => route.fulfill({ status: 404 }));
    // A restarted host does not know its clients.
    const forgets = (message: string) =>
      message.includes('"reconnect"') ? message.replace(/"clientId":"[^"]*"/, '"clientId":"unknown"') : message;
    const replaceVersion = (message: string) => message.replace(/(?<="serverInfo":\{[^}]*"version":")[^"]*/, '99.1.0');
    const sockets: WebSocketRoute[] = [];
    await context.routeWebSocket(/\/ahp$/, (socket) => {
      const server = socket.connectToServer();
      const isUpdated = sockets.push(socket) > 1;
      if (!isUpdated) return;
      socket.onMessage((message) => server.send(forgets(String(message))));
      server.onMessage((message) => socket.send(replaceVersion(String(message))));
    });
    const page = await harness.openPage(sessionPath(uri), context);
    await page.getByRole('group', { name: 'Code in rust' }).getByText('fn main() {}').waitFor();
    const connection = page.getByRole('region', { name: 'Connection' });
    await expect.poll(() => connection.getByRole('button').count()).toBe(0);
    await page.getByRole('textbox', { name: 'Message' }).fill('half a sentence');

    await sockets[0]?.close({ code: 4000 });
    await connection.getByText('The host was updated to 99.1.0.').first().waitFor();
    await connection.getByRole('button', { name: 'Reload' }).click();
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('half a sentence');
    await expect.poll(() => connection.getByRole('button').count()).toBe(0);
  }),
);
