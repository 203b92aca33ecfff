/** Fails tests on page problems: console errors, policy violations, foreign requests and failed responses. */

import type { BrowserContext, ConsoleMessage, Page, Request, Response } from 'playwright-core';

/** Console errors of a page that cannot reach the host. */
export const CONNECTION_ERRORS = [/WebSocket connection to '.*' failed/, /net::ERR_CONNECTION_(REFUSED|RESET)/];

export class ProblemGuard {
  readonly #problems: string[] = [];
  readonly #expected: RegExp[] = [];
  readonly #origin: () => string;

  /** `origin` is the only origin that the page may request. */
  constructor(origin: () => string) {
    this.#origin = origin;
  }

  /** Watches a context from its first page on. */
  async watch(context: BrowserContext): Promise<void> {
    // Policy violations are logged to the console, which the guard reads.
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile, lineNumber }) => {
        // biome-ignore lint/suspicious/noConsole: this is how it comes here
        console.error(`content policy: ${violatedDirective} stopped ${blockedURI} at ${sourceFile}:${lineNumber}`);
      });
    });
    context.on('console', (message) => this.#onConsole(message));
    context.on('weberror', (event) => this.#add(`uncaught: ${event.error().stack ?? event.error().message}`));
    context.on('request', (request) => this.#onRequest(request));
    context.on('response', (response) => this.#onResponse(response));
    context.on('page', (page) => this.#onPage(page));
  }

  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Declares an expected problem. */
  expect(...problems: RegExp[]): void {
    this.#expected.push(...problems);
  }

  /** Clears recorded and expected problems. */
  reset(): void {
    this.#problems.length = 0;
    this.#expected.length = 0;
  }

  /** Fails on unexpected problems. */
  check(): void {
    const left = this.#problems.filter((problem) => !this.#expected.some((expected) => expected.test(problem)));
    if (left.length > 0) throw new Error(`The page had problems that no test expects:\n  ${left.join('\n  ')}`);
  }

  #add(problem: string): void {
    this.#problems.push(problem);
  }

  #onConsole(message: ConsoleMessage): void {
    if (!['error', 'warning', 'assert'].includes(message.type())) return;
    const { url, lineNumber } = message.location();
    this.#add(`console ${message.type()}: ${message.text()} (${url}:${lineNumber})`);
  }

  #onRequest(request: Request): void {
    if (this.#isForeign(request.url())) this.#add(`request to another origin: ${request.url()}`);
  }

  #onResponse(response: Response): void {
    if (response.status() < 400) return;
    this.#add(`answer ${response.status()}: ${response.request().method()} ${response.url()}`);
  }

  #onPage(page: Page): void {
    page.on('websocket', (socket) => {
      if (this.#isForeign(socket.url())) this.#add(`connection to another origin: ${socket.url()}`);
    });
  }

  #isForeign(address: string): boolean {
    const { protocol, host } = new URL(address);
    return !['data:', 'blob:', 'about:'].includes(protocol) && host !== new URL(this.#origin()).host;
  }
}
