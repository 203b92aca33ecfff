/**
 * `node browser/run.mjs scripts/recording.ts DIR`: records the frames of the animation in the README.
 *
 * A browser and a phone-sized browser show the same session of a real host on the scripted model. Screenshots are
 * taken while the session runs, then composed to one image per frame. DIR receives `0000.png`, `0001.png`, … and
 * `delays.json` with the milliseconds for which each of them is displayed. `cargo xtask recording` encodes them.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Locator, Page } from 'playwright-core';
import { launch } from '../browser/support/chromium.ts';
import { BrowserHarness } from '../browser/support/harness.ts';
import { sessionPath } from '../browser/support/locations.ts';
import { scriptText, scriptThinking, scriptToolCall } from '../browser/support/model-script.ts';
import { hasEndedTurns, type SecondClient } from '../browser/support/second-client.ts';
import type { Uri } from '../src/ahp/index.ts';
import { until } from '../tests/support/fake-server.ts';

/** Size of the animation, of the page in it, and of the phone. */
const STAGE = { width: 920, height: 680 };
const DESKTOP = { width: 920, height: 640 };
const PHONE = { width: 350, height: 742 };

/** Width of the session list, which moves out of the frame to make room for the phone. */
const PAN_PX = 304;
const PHONE_SCALE = 0.8;
const PHONE_MARGIN_PX = 5;

/** Display time of a frame in a moving scene. */
const MOTION_MS = 80;

/** Steps of the camera move. */
const PAN_STEPS = 4;

/** Time until a new card accepts keys and shows them. */
const CARD_SETTLE_MS = 1_500;

/** Maximum time for one scene to reach its end. */
const SCENE_TIMEOUT_MS = 60_000;

const PROMPT = '/fix uploads stop after 60 seconds';

const SOURCE = 'export const UPLOAD_TIMEOUT_SECONDS = 60;\n';

const INTRODUCTION = `The limit is a constant in \`timeout.ts\`: every upload ends after **60 seconds**, whatever its size.

I raise it to ten minutes.`;

const SUMMARY = `Done. Uploads now have ten minutes.

| constant | before | after |
|---|---|---|
| \`UPLOAD_TIMEOUT_SECONDS\` | 60 | 600 |`;

/** One frame: screenshots and how they are composed. */
interface Shot {
  readonly desktop: Buffer;
  readonly phone: Buffer | undefined;
  /** Camera position: 0 shows the desktop alone, 1 the conversation beside the phone. */
  readonly pan: number;
  /** Position of a touch on the phone. */
  readonly touch: { readonly x: number; readonly y: number } | undefined;
  readonly caption: string;
  readonly delayMs: number;
}

export async function main(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const browser = await launch();
  try {
    const harness = await BrowserHarness.create(browser);
    let shots: readonly Shot[];
    try {
      shots = await recordStory(harness);
      harness.guard.check();
    } finally {
      await harness.dispose();
    }
    await composeFrames(browser, shots, directory);
  } finally {
    await browser.close();
  }
}

/** Plays the story and takes its screenshots. */
async function recordStory(harness: BrowserHarness): Promise<readonly Shot[]> {
  const folder = join(harness.host.path('home'), 'webshop');
  const file = join(folder, 'timeout.ts');
  const commands = harness.host.path('claude/commands');
  for (const made of [folder, commands]) mkdirSync(made, { recursive: true });
  writeFileSync(file, SOURCE);
  // The model script is a user slash command, so that the message reads naturally.
  const script = [
    '!pace 90',
    scriptThinking('The uploads stop after a fixed time, so there is a limit.'),
    scriptToolCall('Read', { file_path: file }),
    '!pace 90',
    scriptText(INTRODUCTION),
    scriptToolCall('Edit', {
      file_path: file,
      old_string: 'UPLOAD_TIMEOUT_SECONDS = 60;',
      new_string: 'UPLOAD_TIMEOUT_SECONDS = 600;',
    }),
    '!pace 90',
    scriptText(SUMMARY),
  ];
  writeFileSync(join(commands, 'fix.md'), script.join('\n'));
  const client = await harness.connectClient();
  const desktop = await openDesktop(harness);
  for (const title of ['Add a health check', 'Update the dependencies']) {
    // A session that was open in the browser is not marked as new.
    await desktop.goto(harness.origin + sessionPath(await createFinishedSession(client, folder, title)));
    await desktop.getByRole('heading', { name: title }).first().waitFor();
  }
  await desktop.goto(`${harness.origin}/new?directory=${encodeURIComponent(pathToFileURL(folder).href)}`);
  const recorder = new Recorder(desktop);
  const message = desktop.getByRole('textbox', { name: 'First message' });
  await message.click();
  recorder.caption = 'Start a session in the browser';
  await recorder.hold(900);
  for (let end = 2; end < PROMPT.length + 2; end += 2) {
    await message.pressSequentially(PROMPT.slice(end - 2, end));
    await recorder.frame(MOTION_MS / 2);
  }
  await recorder.hold(500);
  await desktop.getByRole('button', { name: 'Start', exact: true }).click();
  await desktop.mouse.move(0, 0);

  recorder.caption = 'Claude Code works on your machine';
  const desktopCard = desktop.getByRole('group', { name: /^Allow/ });
  await recorder.recordUntil(desktopCard);
  await desktop.waitForTimeout(CARD_SETTLE_MS);
  recorder.caption = 'It asks before it changes a file';
  await recorder.hold(1_300);

  const { pathname } = new URL(desktop.url());
  const { chat } = await client.openSession(decodeURIComponent(pathname.split('/').at(-1) ?? ''));
  const phone = await openPhone(harness, pathname);
  const allow = phone.getByRole('group', { name: /^Allow/ }).getByRole('button', { name: /^(Yes|Allow once)/ });
  await allow.first().scrollIntoViewIfNeeded();
  recorder.caption = 'The same session, live on your phone';
  await recorder.showPhone(phone);
  await recorder.hold(1_400);
  recorder.caption = 'Approve from either one';
  await recorder.touch(allow.first());
  await recorder.recordUntil(desktop.getByRole('cell', { name: '600', exact: true }));
  await until(chat.view, hasEndedTurns(1));
  for (const page of [desktop, phone]) await page.getByText('Working').first().waitFor({ state: 'hidden' });
  recorder.caption = 'Both show every change as it happens';
  await recorder.hold(2_200);
  return recorder.shots;
}

/** Creates a finished session for the list. */
async function createFinishedSession(client: SecondClient, folder: string, title: string): Promise<Uri> {
  const { uri, chat, session } = await client.createSession(pathToFileURL(folder).href);
  await chat.send({ text: title });
  await until(chat.view, hasEndedTurns(1));
  await session.rename(title);
  return uri;
}

async function openDesktop(harness: BrowserHarness): Promise<Page> {
  const options = { viewport: DESKTOP, colorScheme: 'light', reducedMotion: 'reduce' } as const;
  return harness.openPage('/', await harness.signIn(await harness.newContext('desktop', options)));
}

async function openPhone(harness: BrowserHarness, path: string): Promise<Page> {
  const options = {
    viewport: PHONE,
    deviceScaleFactor: PHONE_SCALE,
    colorScheme: 'dark',
    reducedMotion: 'reduce',
  } as const;
  return harness.openPage(path, await harness.signIn(await harness.newContext('phone', options)));
}

/**
 * Takes screenshots. A moving scene gets one frame per visible change, so that the speed of the machine does not
 * change the length of the animation.
 */
class Recorder {
  readonly shots: Shot[] = [];
  caption = '';
  readonly #desktop: Page;
  #phone: Page | undefined;
  #pan = 0;

  constructor(desktop: Page) {
    this.#desktop = desktop;
  }

  /** Adds a frame of the current state. */
  async frame(delayMs: number, touch?: Shot['touch']): Promise<void> {
    this.shots.push(await this.#take(delayMs, touch));
  }

  /** Displays the current state for some time. */
  async hold(delayMs: number): Promise<void> {
    await this.frame(delayMs);
  }

  /** Adds a frame for each visible change until an element appears. */
  async recordUntil(end: Locator): Promise<void> {
    const deadline = Date.now() + SCENE_TIMEOUT_MS;
    for (let isOver = false; !isOver; ) {
      if (Date.now() > deadline) throw new Error(`The scene did not end: ${this.caption}`);
      isOver = await end.first().isVisible();
      const shot = await this.#take(MOTION_MS, undefined);
      const last = this.shots.at(-1);
      if (!last || !isSameImage(last, shot)) this.shots.push(shot);
    }
  }

  /** Moves the camera until the phone is beside the conversation. */
  async showPhone(phone: Page): Promise<void> {
    this.#phone = phone;
    for (let step = 1; step <= PAN_STEPS; step++) {
      this.#pan = step / PAN_STEPS;
      await this.frame(MOTION_MS / 2);
    }
  }

  /** Taps an element on the phone, with a visible touch. */
  async touch(target: Locator): Promise<void> {
    const box = await target.boundingBox();
    if (!box) throw new Error('The element to tap is not visible.');
    await this.frame(500, { x: box.x + box.width / 2, y: box.y + box.height / 2 });
    await target.tap();
  }

  async #take(delayMs: number, touch: Shot['touch']): Promise<Shot> {
    const [desktop, phone] = await Promise.all([this.#desktop.screenshot(), this.#phone?.screenshot()]);
    return { desktop, phone, pan: this.#pan, touch, caption: this.caption, delayMs };
  }
}

function isSameImage(one: Shot, other: Shot): boolean {
  const isSamePhone = one.phone && other.phone ? one.phone.equals(other.phone) : one.phone === other.phone;
  return one.caption === other.caption && one.desktop.equals(other.desktop) && isSamePhone;
}

/** The page on which the frames are composed. */
const STAGE_HTML = `<!doctype html><style>
  body { margin: 0; width: ${STAGE.width}px; height: ${STAGE.height}px; overflow: hidden; background: #231f1b; }
  img { display: block; }
  #desktop { position: absolute; left: 0; top: 0; width: ${DESKTOP.width}px; height: ${DESKTOP.height}px; }
  #phone { position: absolute; top: 16px; left: 0; border: 7px solid #000; border-radius: 26px; overflow: hidden;
    outline: 2px solid #6b625a; background: #000; }
  #phone img { width: ${PHONE.width * PHONE_SCALE}px; height: ${PHONE.height * PHONE_SCALE}px; }
  #touch { position: absolute; width: 36px; height: 36px; margin: -18px; border-radius: 50%; background: #ffffff50;
    border: 2px solid #fff; box-sizing: border-box; }
  #caption { position: absolute; left: 0; right: 0; bottom: 0; height: ${STAGE.height - DESKTOP.height}px; background: #231f1b;
    color: #f4ede6; font: 600 17px/${STAGE.height - DESKTOP.height}px "DejaVu Sans", sans-serif; text-align: center; }
</style><img id="desktop"><div id="phone"><img><div id="touch"></div></div><div id="caption"></div>`;

/** Writes one image per shot, and the delays. */
async function composeFrames(browser: Browser, shots: readonly Shot[], directory: string): Promise<void> {
  const stage = await browser.newPage({ viewport: STAGE });
  await stage.setContent(STAGE_HTML);
  for (const [at, shot] of shots.entries()) {
    await stage.evaluate(showShot, {
      desktop: shot.desktop.toString('base64'),
      phone: shot.phone?.toString('base64'),
      desktopLeft: -shot.pan * PAN_PX,
      phoneLeft: STAGE.width + PHONE_MARGIN_PX - shot.pan * PAN_PX,
      touch: shot.touch && { x: shot.touch.x * PHONE_SCALE, y: shot.touch.y * PHONE_SCALE },
      caption: shot.caption,
    });
    await stage.screenshot({ path: join(directory, `${String(at).padStart(4, '0')}.png`) });
  }
  writeFileSync(join(directory, 'delays.json'), JSON.stringify(shots.map(({ delayMs }) => delayMs)));
  await stage.close();
}

interface StageContent {
  readonly desktop: string;
  readonly phone: string | undefined;
  readonly desktopLeft: number;
  readonly phoneLeft: number;
  readonly touch: { readonly x: number; readonly y: number } | undefined;
  readonly caption: string;
}

/** Runs in the stage page. */
async function showShot(content: StageContent): Promise<void> {
  const find = (selector: string) => document.querySelector<HTMLElement>(selector) as HTMLElement;
  const show = async (selector: string, png: string) => {
    const image = find(selector) as HTMLImageElement;
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
  };
  await show('#desktop', content.desktop);
  if (content.phone) await show('#phone img', content.phone);
  find('#desktop').style.left = `${content.desktopLeft}px`;
  find('#phone').style.left = `${content.phoneLeft}px`;
  find('#caption').textContent = content.caption;
  const touch = find('#touch');
  touch.hidden = content.touch === undefined;
  if (content.touch) {
    touch.style.left = `${content.touch.x}px`;
    touch.style.top = `${content.touch.y}px`;
  }
}
