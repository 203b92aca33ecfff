// Starts the host and VS Code's server, and ends everything that a run started.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const READY_TIMEOUT_MS = 60_000;

/** Ends a program when its stdin closes, which happens at the latest when this process ends. */
const LIFELINE = 'data:text/javascript,process.stdin.resume().on("end",()=>process.exit())';

/** Cleanup functions; the newest runs first. */
const cleanups = [];

/** Runs all cleanup functions. */
export async function cleanUp() {
  while (cleanups.length > 0) await cleanups.pop()();
}

/** Adds a cleanup function. */
export function onCleanup(cleanup) {
  cleanups.push(cleanup);
}

/** Creates a temporary directory, which cleanup removes. */
export function createTemporaryDirectory() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'hostler-vscode-'));
  onCleanup(() => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return directory;
}

/** Finds an unused port. */
async function findFreePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Hostler with the scripted model. */
export class Host {
  constructor(options, home, project) {
    Object.assign(this, { options, home, project, port: 0 });
    onCleanup(() => this.stop());
  }

  get url() {
    return `ws://127.0.0.1:${this.port}/`;
  }

  /** Starts the host; after a stop, on the same port. */
  async start() {
    const log = path.join(this.options.out, 'hostler.log');
    const args = ['serve', '--listen', `127.0.0.1:${this.port}`, '--no-token', '--upstream', 'scripted', '--exit-on-stdin-eof'];
    this.child = start(this.options.hostler, args, { cwd: this.project, env: environment(this.home, this.options), log });
    const ready = await waitForOutput(this.child, 'Hostler', /^READY:(\d+)$/m, log);
    this.port = Number(ready[1]);
  }

  async stop() {
    await stop(this.child);
    this.child = undefined;
  }
}

/** Starts VS Code's server, which serves the workbench and relays its connection to the host. */
export async function startWorkbenchServer(options, home, hostPort) {
  const port = await findFreePort();
  const log = path.join(options.out, 'server.log');
  const args = [
    '--import', LIFELINE, 'out/server-main.js', '--host', '127.0.0.1', '--port', String(port),
    '--without-connection-token', '--accept-server-license-terms', '--telemetry-level', 'off',
    '--server-data-dir', path.join(home, 'server'),
    '--agent-host-bridge-host', '127.0.0.1', '--agent-host-bridge-port', String(hostPort),
  ];
  const child = start(process.execPath, args, { cwd: options.server, env: environment(home, options), log });
  onCleanup(() => stop(child));
  await waitForOutput(child, "VS Code's server", /listening on (\d+)/i, log);
  return `http://127.0.0.1:${port}`;
}

/** The environment of a run: its own home and settings, and the agents that are installed on this machine. */
function environment(home, options) {
  const inherited = ['PATH', 'LANG', 'LC_ALL', 'TERM', 'TZ'].filter((name) => process.env[name] !== undefined);
  return {
    ...Object.fromEntries(inherited.map((name) => [name, process.env[name]])),
    HOME: home,
    SHELL: '/bin/bash',
    TMPDIR: home,
    XDG_CACHE_HOME: options.cache,
    XDG_CONFIG_HOME: path.join(home, 'config'),
    XDG_RUNTIME_DIR: path.join(home, 'run'),
    XDG_STATE_HOME: path.join(home, 'state'),
    CLAUDE_CONFIG_DIR: path.join(home, 'claude'),
  };
}

/** Starts a program in its own process group, so that Ctrl-C does not reach it before the cleanup does. */
function start(program, args, { cwd, env, log }) {
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
  const file = fs.createWriteStream(log, { flags: 'a' });
  child.stdout.pipe(file, { end: false });
  child.stderr.pipe(file, { end: false });
  child.stdin.on('error', () => {});
  child.on('error', (error) => file.write(`${error}\n`));
  return child;
}

/** Waits until a program prints a line that matches a pattern. */
async function waitForOutput(child, name, pattern, log) {
  let text = '';
  return await new Promise((resolve, reject) => {
    const fail = (reason) => reject(new Error(`${name} ${reason}. Its output is in ${log}`));
    const timer = setTimeout(() => fail('did not become ready in time'), READY_TIMEOUT_MS);
    child.once('error', () => fail('failed to start'));
    child.once('exit', (code, signal) => fail(`ended with ${signal ?? code} before it was ready`));
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const match = pattern.exec(text);
      if (match) {
        clearTimeout(timer);
        resolve(match);
      }
    });
  });
}

/** Closes the stdin of a program; kills its process group if it does not exit within 8 seconds. */
async function stop(child) {
  if (child?.pid === undefined) return;
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    child.stdin.end();
    const timer = setTimeout(() => child.kill('SIGKILL'), 8_000);
    await exited;
    clearTimeout(timer);
  }
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The process group is empty, as expected.
  }
}
