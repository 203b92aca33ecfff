/** The real host on the scripted model with the real agent, in directories of its own. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

/** The binary that `cargo xtask web --check` has built, or any other one. */
export const BINARY = process.env.HOSTLER_BIN;

const TOKEN = 'known-to-the-tests-alone';

/** What marks a process as part of a test run, so that one that is forgotten is found. */
const MARKS = ['HOSTLER_TEST_RUN', 'TEST_RUN'];

export class HostProcess {
  readonly #root = mkdtempSync(join(tmpdir(), 'hostler-web-'));
  #process: ChildProcess | undefined;
  #port = 0;
  #log = '';

  constructor() {
    for (const name of ['home', 'work', 'run', 'claude']) mkdirSync(join(this.#root, name));
    writeFileSync(join(this.#root, 'token'), TOKEN, { mode: 0o600 });
  }

  get url(): string {
    return `ws://127.0.0.1:${this.#port}/?tkn=${TOKEN}`;
  }

  /** Where its page is. */
  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get work(): string {
    return pathToFileURL(this.path('work')).href;
  }

  /** What it has written to its log. */
  get log(): string {
    return this.#log;
  }

  /** One of its directories: `work`, `claude`, `state` … */
  path(name: string): string {
    return join(this.#root, name);
  }

  /** Starts it; after a stop, on the port that it had. */
  async start(binary: string): Promise<void> {
    const listen = ['--listen', `127.0.0.1:${this.#port}`, '--token-file', join(this.#root, 'token')];
    const lines = this.#run(binary, ['serve', ...listen, '--upstream', 'scripted', '--exit-on-stdin-eof']);
    for await (const line of lines) {
      if (!line.startsWith('READY:')) continue;
      this.#port = Number(line.slice('READY:'.length));
      return;
    }
    throw new Error(`The host did not start: ${this.#log}`);
  }

  /** Starts the demo in its place, and says where the page with its turns is. */
  async demo(binary: string): Promise<string> {
    for await (const line of this.#run(binary, ['demo'])) {
      const [, link] = / page │ (\S+)/.exec(line) ?? [];
      if (link === undefined) continue;
      this.#port = Number(new URL(link).port);
      return link;
    }
    throw new Error(`The demo showed no page: ${this.#log}`);
  }

  /** Runs a command; the lines are those of its stdout. */
  #run(binary: string, command: readonly string[]): AsyncIterable<string> {
    const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
    const path = (name: string) => this.path(name);
    const marks = MARKS.map((name) => [name, process.env[name]]).filter(([, value]) => value !== undefined);
    const { PATH = '' } = process.env;
    const host = spawn(binary, command, {
      cwd: path('work'),
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        ...Object.fromEntries(marks),
        PATH,
        HOME: path('home'),
        TMPDIR: path('run'),
        XDG_CACHE_HOME: cache,
        XDG_STATE_HOME: path('state'),
        XDG_CONFIG_HOME: path('config'),
        XDG_RUNTIME_DIR: path('run'),
        CLAUDE_CONFIG_DIR: path('claude'),
        // Scripts for the model begin like commands for the shell.
        HOSTLER_NO_COMMANDS: 'true',
        IS_SANDBOX: '1',
      },
    });
    this.#process = host;
    host.stderr?.on('data', (data) => {
      this.#log += data;
    });
    return createInterface({ input: host.stdout });
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const host = this.#process;
    if (!host || host.exitCode !== null || host.signalCode !== null) return;
    const ended = once(host, 'exit');
    host.kill(signal);
    await ended;
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 10 });
  }
}
