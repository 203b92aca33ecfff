/** The harness of browser tests: a host, browsers, second clients and a problem guard. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, devices, type Page } from 'playwright-core';
import { BINARY, HostProcess } from '../../tests/support/host-process.ts';
import { ProblemGuard } from './problem-guard.ts';
import { SecondClient } from './second-client.ts';

/** Directory for screenshots and logs of failed tests. */
const OUTPUT_DIR = process.env.BROWSER_OUT ?? join(import.meta.dirname, '../../../target/browser');

/** Maximum time for one action, generous for slow machines. */
const ACTION_TIMEOUT_MS = 30_000;

/** The root channel of the host. */
const ROOT = 'ahp-root://';

const { defaultBrowserType: _, ...PHONE } = devices['iPhone 14'] ?? {};

export type Device = 'desktop' | 'phone';

const DEVICES: Record<Device, BrowserContextOptions> = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { ...PHONE, viewport: { width: 390, height: 844 } },
};

export class BrowserHarness {
  readonly host = new HostProcess();
  readonly guard: ProblemGuard;
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];
  readonly #clients: SecondClient[] = [];
  #sharedClients = 0;

  private constructor(browser: Browser) {
    this.#browser = browser;
    this.guard = new ProblemGuard(() => this.origin);
  }

  static async create(browser: Browser): Promise<BrowserHarness> {
    const harness = new BrowserHarness(browser);
    try {
      await harness.start();
      return harness;
    } catch (error) {
      await harness.dispose();
      throw error;
    }
  }

  /** Origin of the page. */
  get origin(): string {
    return this.host.origin;
  }

  /** Starts the host, or restarts it on its port. */
  async start(): Promise<void> {
    if (!BINARY) throw new Error('HOSTLER_BIN does not name a hostler; `cargo xtask web --browser` does it all.');
    await this.host.start(BINARY);
  }

  /** Connects a second client. */
  async connectClient(): Promise<SecondClient> {
    const client = await SecondClient.connect(this.host);
    this.#clients.push(client);
    return client;
  }

  /** Creates a signed-out browser context with its own cookies and storage. */
  async newContext(device: Device = 'desktop', options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const context = await this.#browser.newContext({ ...DEVICES[device], locale: 'en-GB', ...options });
    context.setDefaultTimeout(ACTION_TIMEOUT_MS);
    this.#contexts.push(context);
    await this.guard.watch(context);
    return context;
  }

  /** Signs a browser in with a one-time code. */
  async signIn(context: BrowserContext): Promise<BrowserContext> {
    const answer = await context.request.post(`${this.origin}/sign-in`, {
      headers: { origin: this.origin },
      data: { code: await this.createSignInCode() },
    });
    if (!answer.ok()) throw new Error(`Sign-in failed: ${answer.status()} ${await answer.text()}`);
    // An empty page of the origin gives access to its storage.
    const page = await context.newPage();
    await page.route('**', (route) => route.fulfill({ body: '', contentType: 'text/html' }));
    await page.goto(this.origin);
    const { key } = (await answer.json()) as { key: string };
    await page.evaluate((key) => localStorage.setItem('hostler.page-key', key), key);
    await page.close();
    return context;
  }

  /** Creates a one-time sign-in code. */
  async createSignInCode(): Promise<string> {
    const client = this.#clients[0] ?? (await this.connectClient());
    const { code } = await client.host.client.request('hostler/createSignInLink', { channel: ROOT });
    return code;
  }

  /** Opens the page in a new signed-in browser, or in another tab of a context. */
  async openPage(path = '/', where: Device | BrowserContext = 'desktop'): Promise<Page> {
    const context = typeof where === 'string' ? await this.signIn(await this.newContext(where)) : where;
    const page = await context.newPage();
    await page.goto(this.origin + path);
    return page;
  }

  /** Saves screenshots and the host log of a failed test. */
  async saveArtifacts(name: string): Promise<void> {
    const place = join(OUTPUT_DIR, name.replace(/[^\w]+/g, '-').slice(0, 80));
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'host.log'), this.host.log);
    const pages = this.#contexts.flatMap((context) => context.pages());
    // A hanging page has no screenshot, but the others do.
    await Promise.allSettled(
      pages.map((page, at) => page.screenshot({ path: join(place, `page-${at + 1}.png`), timeout: 5_000 })),
    );
    process.stderr.write(`${name}: screenshots and the host's log are in ${place}\n`);
  }

  /** The current clients stay connected across resets. */
  keepClients(): void {
    this.#sharedClients = this.#clients.length;
  }

  /** Disconnects clients and browsers of one test; the host keeps running. */
  async reset(): Promise<void> {
    for (const client of this.#clients.splice(this.#sharedClients)) client.stop();
    await Promise.allSettled(this.#contexts.splice(0).map((context) => context.close()));
    this.guard.reset();
  }

  async dispose(): Promise<void> {
    this.#sharedClients = 0;
    await this.reset();
    await this.host.stop();
    this.host.remove();
  }
}
