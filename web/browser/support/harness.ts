/** Everything that a test of the page happens on: a host of its own, browsers of its own, and somebody who watches. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, devices, type Page } from 'playwright-core';
import { BINARY, Hostler } from '../../tests/support/host-process.ts';
import { Guard } from './problem-guard.ts';
import { Client } from './second-client.ts';

/** Where pictures and logs of failed tests go. */
const OUT = process.env.BROWSER_OUT ?? join(import.meta.dirname, '../../../target/browser');

/** How long a page may take for one thing; a busy machine has many. */
const PATIENCE = 30_000;

/** The channel of what concerns the host itself. */
const ROOT = 'ahp-root://';

const { defaultBrowserType: _, ...PHONE } = devices['iPhone 14'] ?? {};

export type Device = 'desktop' | 'phone';

const DEVICES: Record<Device, BrowserContextOptions> = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { ...PHONE, viewport: { width: 390, height: 844 } },
};

export class Stage {
  readonly hostler = new Hostler();
  readonly guard: Guard;
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];
  readonly #clients: Client[] = [];
  #lasting = 0;

  private constructor(browser: Browser) {
    this.#browser = browser;
    this.guard = new Guard(() => this.origin);
  }

  static async begin(browser: Browser): Promise<Stage> {
    const stage = new Stage(browser);
    try {
      await stage.start();
      return stage;
    } catch (error) {
      await stage.end();
      throw error;
    }
  }

  /** Where the page is. */
  get origin(): string {
    return this.hostler.origin;
  }

  /** Starts the host, or starts it again on its port. */
  async start(): Promise<void> {
    if (!BINARY) throw new Error('HOSTLER_BIN does not name a hostler; `cargo xtask web --browser` does it all.');
    await this.hostler.start(BINARY);
  }

  /** Another client, which is no page. */
  async client(): Promise<Client> {
    const client = await Client.connect(this.hostler);
    this.#clients.push(client);
    return client;
  }

  /** A browser of its own, which nobody has signed in: it shares neither cookies nor storage with another one. */
  async context(device: Device = 'desktop', options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const context = await this.#browser.newContext({ ...DEVICES[device], locale: 'en-GB', ...options });
    context.setDefaultTimeout(PATIENCE);
    this.#contexts.push(context);
    await this.guard.watch(context);
    return context;
  }

  /** Signs a browser in, as the page itself does it. */
  async signIn(context: BrowserContext): Promise<BrowserContext> {
    const answer = await context.request.post(`${this.origin}/sign-in`, {
      headers: { origin: this.origin },
      data: { code: await this.code() },
    });
    if (!answer.ok()) throw new Error(`The host does not let anybody in: ${answer.status()} ${await answer.text()}`);
    // An empty page of the origin, which has its storage.
    const page = await context.newPage();
    await page.route('**', (route) => route.fulfill({ body: '', contentType: 'text/html' }));
    await page.goto(this.origin);
    const { key } = (await answer.json()) as { key: string };
    await page.evaluate((key) => localStorage.setItem('hostler.page-key', key), key);
    await page.close();
    return context;
  }

  /** The code of a new one-time link. */
  async code(): Promise<string> {
    const client = this.#clients[0] ?? (await this.client());
    const { code } = await client.host.client.request('hostler/createLink', { channel: ROOT });
    return code;
  }

  /** The page, in a new browser that is signed in, or in another tab of one. */
  async open(path = '/', where: Device | BrowserContext = 'desktop'): Promise<Page> {
    const context = typeof where === 'string' ? await this.signIn(await this.context(where)) : where;
    const page = await context.newPage();
    await page.goto(this.origin + path);
    return page;
  }

  /** Keeps what a person needs to understand a failure. */
  async keep(name: string): Promise<void> {
    const place = join(OUT, name.replace(/[^\w]+/g, '-').slice(0, 80));
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'host.log'), this.hostler.log);
    const pages = this.#contexts.flatMap((context) => context.pages());
    // A page that hangs has no picture, but the others have one.
    await Promise.allSettled(
      pages.map((page, at) => page.screenshot({ path: join(place, `page-${at + 1}.png`), timeout: 5_000 })),
    );
    process.stderr.write(`${name}: pictures and the host's log are in ${place}\n`);
  }

  /** Who is here now belongs to the stage, and stays when it is cleared. */
  keepClients(): void {
    this.#lasting = this.#clients.length;
  }

  /** Sends everybody away who came since the beginning; the host stays, with what it knows. */
  async clear(): Promise<void> {
    for (const client of this.#clients.splice(this.#lasting)) client.stop();
    await Promise.allSettled(this.#contexts.splice(0).map((context) => context.close()));
    this.guard.forget();
  }

  async end(): Promise<void> {
    this.#lasting = 0;
    await this.clear();
    await this.hostler.stop();
    this.hostler.remove();
  }
}
