/** Attachments of messages. */

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FileChooser, Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { findViolations } from './support/axe.ts';
import { sharedHarness } from './support/harness-tests.ts';
import { sessionPath } from './support/locations.ts';
import { createPng } from './support/png.ts';

const browserTest = sharedHarness();

const SHOT = createPng(12, 8, [200, 60, 20]);

function file(name: string, mimeType: string, buffer: Buffer | string) {
  return { name, mimeType, buffer: Buffer.from(buffer) };
}

/** The file chooser that a button opens. */
async function chooser(page: Page, button: Locator): Promise<FileChooser> {
  const [chosen] = await Promise.all([page.waitForEvent('filechooser'), button.click()]);
  return chosen;
}

function field(page: Page): Locator {
  return page.getByRole('textbox', { name: 'Message' });
}

function chips(page: Page): Locator {
  return page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');
}

function sendButton(page: Page): Locator {
  return page.getByRole('button', { name: 'Send', exact: true });
}

test(
  'an image from the file picker appears as a preview, in the turn, and in the model request',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const modelRequest = await chooser(page, page.getByRole('button', { name: 'Attach files' }));
    expect(modelRequest.isMultiple()).toBe(true);
    await modelRequest.setFiles([
      file('shot.png', 'image/png', SHOT),
      file('notes.txt', 'text/plain', 'Mind the gap.'),
    ]);
    await chips(page).filter({ hasText: 'shot.png' }).filter({ hasText: '12 × 8' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await chips(page).filter({ hasText: 'notes.txt' }).getByRole('button', { name: 'Remove notes.txt' }).click();
    await expect.poll(() => chips(page).count()).toBe(1);

    await field(page).fill(`!see ${SHOT.toString('base64')} I see it.`);
    await sendButton(page).click();
    await page.getByText('I see it.', { exact: true }).waitFor();
    await expect.poll(() => chips(page).count()).toBe(0);
    const image = page.getByRole('button', { name: 'Image shot.png' });
    const width = () => image.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth);
    await expect.poll(width).toBe(12);
    await image.click();
    await page.getByRole('dialog', { name: 'shot.png' }).getByRole('img', { name: 'shot.png' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
  }),
);

test(
  'files can be dropped and images pasted',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const context = await harness.signIn(await harness.newContext());
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const page = await harness.openPage(sessionPath(uri), context);
    await field(page).waitFor();
    const dataTransfer = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(['one'], 'one.txt', { type: 'text/plain' }));
      data.items.add(new File(['two'], 'two.txt', { type: 'text/plain' }));
      return data;
    });
    const pane = page.getByRole('main');
    await pane.dispatchEvent('dragover', { dataTransfer });
    await page.getByText('Drop to attach').waitFor();
    await pane.dispatchEvent('drop', { dataTransfer });
    await page.getByText('Drop to attach').waitFor({ state: 'hidden' });
    await expect.poll(() => chips(page).count()).toBe(2);

    await page.evaluate(
      async (bytes) => {
        const image = new Blob([new Uint8Array(bytes)], { type: 'image/png' });
        await navigator.clipboard.write([new ClipboardItem({ 'image/png': image })]);
      },
      [...SHOT],
    );
    await field(page).press('Control+v');
    await chips(page).filter({ hasText: '12 × 8' }).waitFor();
    // A message can consist of files only.
    await expect.poll(() => sendButton(page).isEnabled()).toBe(true);
    await sendButton(page).click();
    await page.getByRole('button', { name: /^Image/ }).waitFor();
    await page.getByRole('article').getByText('two.txt').waitFor();
  }),
);

test(
  'resized images show a warning, and a rejected file blocks sending until it is removed',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    const picker = await chooser(page, page.getByRole('button', { name: 'Attach files' }));
    await picker.setFiles([
      file('wall.png', 'image/png', createPng(1600, 60, [20, 90, 160])),
      file('data.bin', 'application/octet-stream', Buffer.from([0, 1, 2, 255, 254, 0, 7])),
    ]);
    await page.getByText(/^wall\.png: .*\d/).waitFor();
    await page.getByText(/^data\.bin cannot be sent: .{10}/).waitFor();
    await chips(page).filter({ hasText: 'data.bin' }).getByText('Cannot be sent').waitFor();
    await field(page).fill('look at this wall');
    await expect.poll(() => sendButton(page).isDisabled()).toBe(true);
    await field(page).press('Enter');
    await expect.poll(() => field(page).inputValue()).toBe('look at this wall');
    expect(await findViolations(page)).toEqual([]);

    await page.getByRole('button', { name: 'Remove data.bin' }).click();
    await expect.poll(() => sendButton(page).isEnabled()).toBe(true);
    await field(page).press('Enter');
    await page.getByText('You said: look at this wall').waitFor();
    await page.getByRole('button', { name: 'Image wall.png' }).waitFor();
  }),
);

test(
  'a phone offers its camera',
  browserTest(async (harness) => {
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri), 'phone');
    await page.getByRole('button', { name: 'Attach' }).click();
    const camera = await chooser(page, page.getByRole('menuitem', { name: 'Take a photo' }));
    expect(await camera.element().getAttribute('capture')).toBe('environment');
    expect(await camera.element().getAttribute('accept')).toBe('image/*');
    await camera.setFiles(file('photo.png', 'image/png', SHOT));
    await chips(page).filter({ hasText: 'photo.png' }).filter({ hasText: '12 × 8' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await field(page).fill('from my pocket');
    await sendButton(page).click();
    await page.getByRole('button', { name: 'Image photo.png' }).waitFor();
  }),
);

test(
  'the keyboard completes files and commands, and a rejected message returns with the reason',
  browserTest(async (harness) => {
    const place = join(harness.host.path('work'), 'lighthouse.png');
    writeFileSync(place, SHOT);
    const { uri } = await (await harness.connectClient()).createSession();
    const page = await harness.openPage(sessionPath(uri));
    await field(page).pressSequentially('look at @lightho');
    const offers = page.getByRole('listbox', { name: 'Suggestions' });
    await offers.getByRole('option', { name: /lighthouse\.png/, selected: true }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.keyboard.press('Tab');
    await expect.poll(() => field(page).inputValue()).toMatch(/look at @\S*lighthouse\.png/);
    await chips(page).filter({ hasText: 'lighthouse.png' }).waitFor();
    await offers.waitFor({ state: 'hidden' });

    // It was removed meanwhile.
    await expect.poll(() => sendButton(page).isEnabled()).toBe(true);
    rmSync(place);
    const typed = await field(page).inputValue();
    await field(page).press('Enter');
    const refusal = page.getByRole('alert').filter({ hasText: /^Not sent: .*lighthouse\.png/ });
    await refusal.waitFor();
    await expect.poll(() => field(page).inputValue()).toBe(typed);
    await expect.poll(() => chips(page).count()).toBe(1);
    // Without its mention the file is removed.
    await field(page).fill('');
    await expect.poll(() => chips(page).count()).toBe(0);
    await refusal.waitFor({ state: 'hidden' });

    await field(page).pressSequentially('/ren');
    await offers
      .getByRole('option', { name: /rename/ })
      .first()
      .waitFor();
    await page.keyboard.press('Escape');
    await offers.waitFor({ state: 'hidden' });
    // Completion stays dismissed for this word and returns for another one.
    await field(page).fill('');
    await field(page).pressSequentially('/rena');
    await offers
      .getByRole('option', { name: /rename/ })
      .first()
      .waitFor();
    await page.keyboard.press('Enter');
    await expect.poll(() => field(page).inputValue()).toMatch(/^\/rename/);
    await field(page).fill('/rename The lighthouse');
    await field(page).press('Enter');
    await page.getByRole('heading', { level: 1, name: 'The lighthouse' }).waitFor();
  }),
);
