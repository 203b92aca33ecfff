/** A real host process with the scripted model and the real agent, in its own directories. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

/** The binary that `cargo xtask web --check` built, or another one. */
export const BINARY = process.env.HOSTLER_BIN;

const TOKEN = 'known-to-the-tests-alone';

/** Marks processes of a test run, so that leaked ones are found. */
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

  /** Origin of its page. */
  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get work(): string {
    return pathToFileURL(this.path('work')).href;
  }

  /** Its log output. */
  get log(): string {
    return this.#log;
  }

  /** One of its directories: `work`, `claude`, `state` … */
  path(name: string): string {
    return join(this.#root, name);
  }

  /** Starts the host; after a stop, on the same port. */
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

  /** Starts the demo instead, and returns the URL of its page. */
  async demo(binary: string): Promise<string> {
    for await (const line of this.#run(binary, ['demo'])) {
      const [, link] = / page │ (\S+)/.exec(line) ?? [];
      if (link === undefined) continue;
      this.#port = Number(new URL(link).port);
      return link;
    }
    throw new Error(`The demo showed no page: ${this.#log}`);
  }

  /** Runs a command and returns the lines of its stdout. */
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
        // Model scripts start with the same prefix as shell commands.
        HOSTLER_NO_SHELL_COMMANDS: 'true',
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
