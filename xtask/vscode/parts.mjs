// Programs of a run: started here, and ended here in every case.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const PATIENCE = 60_000;

/** Ends a program whose reason has gone: it holds this end of a pipe, and we hold the other as long as we live. */
const LIFELINE = 'data:text/javascript,process.stdin.resume().on("end",()=>process.exit())';

/** What is to be undone, newest first. */
const endings = [];

/** Undoes everything that was done so far. */
export async function endAll() {
  while (endings.length > 0) await endings.pop()();
}

/** Something to do at the end. */
export function atTheEnd(ending) {
  endings.push(ending);
}

/** A directory that is gone afterwards. */
export function scratch() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'hostler-vscode-'));
  atTheEnd(() => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return directory;
}

/** A port that nobody has right now. */
export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Hostler on the scripted model. */
export class Host {
  constructor(options, home, project) {
    Object.assign(this, { options, home, project, port: 0 });
    atTheEnd(() => this.stop());
  }

  get url() {
    return `ws://127.0.0.1:${this.port}/`;
  }

  /** Starts it; a second time on the port that it had. */
  async start() {
    const log = path.join(this.options.out, 'hostler.log');
    const args = ['serve', '--listen', `127.0.0.1:${this.port}`, '--no-token', '--upstream', 'scripted', '--exit-on-stdin-eof'];
    this.child = start(this.options.hostler, args, { cwd: this.project, env: environment(this.home, this.options), log });
    const ready = await said(this.child, 'Hostler', /^READY:(\d+)$/m, log);
    this.port = Number(ready[1]);
  }

  async stop() {
    await stop(this.child);
    this.child = undefined;
  }
}

/** VS Code's server, which shows the workbench and passes on what it says to the host. */
export async function workbenchServer(options, home, hostPort) {
  const port = await freePort();
  const log = path.join(options.out, 'server.log');
  const args = [
    '--import', LIFELINE, 'out/server-main.js', '--host', '127.0.0.1', '--port', String(port),
    '--without-connection-token', '--accept-server-license-terms', '--telemetry-level', 'off',
    '--server-data-dir', path.join(home, 'server'),
    '--agent-host-bridge-host', '127.0.0.1', '--agent-host-bridge-port', String(hostPort),
  ];
  const child = start(process.execPath, args, { cwd: options.server, env: environment(home, options), log });
  atTheEnd(() => stop(child));
  await said(child, "VS Code's server", /listening on (\d+)/i, log);
  return `http://127.0.0.1:${port}`;
}

/** Nobody's settings but those of this run; the agents that are installed are the machine's. */
function environment(home, options) {
  const kept = ['PATH', 'LANG', 'LC_ALL', 'TERM', 'TZ'].filter((name) => process.env[name] !== undefined);
  return {
    ...Object.fromEntries(kept.map((name) => [name, process.env[name]])),
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

/** In a process group of its own: Ctrl-C is ours to pass on, in our order. */
function start(program, args, { cwd, env, log }) {
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
  const file = fs.createWriteStream(log, { flags: 'a' });
  child.stdout.pipe(file, { end: false });
  child.stderr.pipe(file, { end: false });
  child.stdin.on('error', () => {});
  child.on('error', (error) => file.write(`${error}\n`));
  return child;
}

/** Waits until a program has printed something. */
async function said(child, name, pattern, log) {
  let text = '';
  return await new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${name} ${why}; its output is in ${log}`));
    const timer = setTimeout(() => fail('did not become ready'), PATIENCE);
    child.once('error', () => fail('could not be started'));
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

/** Closes the lifeline; what does not go by itself within some seconds is ended with its group. */
async function stop(child) {
  if (child?.pid === undefined) return;
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit');
    child.stdin.end();
    const timer = setTimeout(() => child.kill('SIGKILL'), 8_000);
    await gone;
    clearTimeout(timer);
  }
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // No process is left in the group, as expected.
  }
}
