// Operates VS Code with Hostler step by step: each step waits for its visible result and takes a screenshot.
//
// Called by `cargo xtask vscode` with one argument: its options as JSON.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { startFrameRecorder } from './frames.mjs';
import { Host, cleanUp, createTemporaryDirectory, onCleanup, startWorkbenchServer } from './processes.mjs';
import { Workbench } from './workbench.mjs';

const options = JSON.parse(process.argv[2]);
const AGENT = 'Claude';

/** Long enough to be visible while it streams. */
const STORY = [
  'Hello from the **stable**. This is who lives here:', '',
  '* *Bella*, who is calm and kind and lets everybody ride,',
  '* *Cæsar*, who is old and knows every path in the hills,',
  '* *Dolly*, who is fast and proud and likes apples more than anything.', '',
  'They have been fed, and their hooves are clean. All is well.',
].join('\\n');

let page;
let screenshots = 0;
/** Whether a signal ended the run; errors after it are not reported. */
let isStopped = false;
/** Whether all steps passed and everything keeps running. */
let isInspecting = false;

async function main() {
  const home = createTemporaryDirectory();
  const project = makeProject(home);
  const host = new Host(options, home, project);
  let workbench;

  await step('the host starts', async () => {
    await host.start();
  });
  const url = await step("VS Code's server starts", async () => {
    const port = options.frames ? await startFrameRecorder(options, host) : host.port;
    return await startWorkbenchServer(options, home, port);
  });
  await step('the workbench opens', async () => {
    page = await openBrowser(home);
    workbench = new Workbench(page);
    await workbench.open(url, project);
    await workbench.trustFolder();
    await workbench.chooseAgent(AGENT);
    await workbench.widenChat();
  });
  await step('an answer streams', async () => {
    await workbench.send(script('Say hello', '!pace 60', `!say ${STORY}`));
    await workbench.waitForAnswer('Bella');
    await workbench.waitForListed('Say hello', 'Working');
    await takeScreenshot('streaming');
    await workbench.waitForAnswer('All is well');
    await workbench.waitForTurnEnd();
    await workbench.waitForListed('Say hello', /now|ago/);
  }, 'answer');
  await step('a command waits for approval', async () => {
    await workbench.send(script('Saddle up', `!tool Bash ${json({ command: 'echo saddle for Bella | tee saddles.txt', description: 'Get the saddles' })}`, '!say All are **saddled**.'));
    await workbench.waitForPermissionRequest('tee saddles.txt');
    await workbench.waitForListed('Say hello', 'Input needed');
  }, 'allow');
  await step('the command runs after approval', async () => {
    await workbench.allow();
    await workbench.waitForAnswer('saddled');
    await workbench.waitForTurnEnd();
    await workbench.expandSteps();
    await workbench.waitForFile('saddles.txt');
  }, 'allowed');
  await step('a question is asked', async () => {
    const question = { question: 'Which horse shall we ride?', header: 'Horse', multiSelect: false, options: [
      { label: 'Bella', description: 'Calm and kind' },
      { label: 'Dolly', description: 'Fast and proud' },
    ] };
    await workbench.send(script('Which one?', `!tool AskUserQuestion ${json({ questions: [question] })}`, '!say Off we go.'));
    await workbench.waitForQuestion('Which horse shall we ride?');
    await workbench.waitForListed('Say hello', 'Input needed');
  }, 'question');
  await step('the question is answered', async () => {
    await workbench.choose('Dolly');
    await workbench.waitForAnswer('Off we go.');
    await workbench.waitForTurnEnd();
  }, 'answered');
  await step('an edit is shown before it is made', async () => {
    const file = path.join(project, 'horses.md');
    await workbench.send(script(
      'Add Ella', `!tool Read ${json({ file_path: file })}`,
      `!tool Edit ${json({ file_path: file, old_string: '* Dolly', new_string: '* Dolly\n* Ella' })}`, '!say Ella has **joined**.',
    ));
    await workbench.waitForPermissionRequest('horses.md');
    await workbench.viewChanges('horses.md', 'Ella');
  }, 'edit');
  await step('the edit is made after approval', async () => {
    await workbench.allow();
    await workbench.waitForAnswer('joined');
    await workbench.waitForTurnEnd();
    if (!fs.readFileSync(path.join(project, 'horses.md'), 'utf8').includes('* Ella')) throw new Error('the file was not changed');
    await workbench.expandSteps();
  }, 'edited');
  await step('the user runs a shell command', async () => {
    await workbench.send('!ls -1');
    await workbench.waitForText('!ls -1');
    await workbench.waitForTerminal('ls -1');
    await workbench.waitForTurnEnd();
  }, 'command');
  await step('a second session starts', async () => {
    await page.getByRole('button', { name: 'New Session' }).click();
    await workbench.send(script('Feed the horses', '!say They eat **hay**.'));
    await workbench.moveMouseAway();
    await workbench.waitForAnswer('hay');
    await workbench.waitForTurnEnd();
    await workbench.waitForListed('Feed the horses', /now|ago/);
    await workbench.waitForListed('Say hello', /now|ago/);
  }, 'sessions');
  await step('the sessions are listed after a reload', async () => {
    await workbench.reload();
    await workbench.closeEditors();
    await workbench.openSession('Say hello');
    await workbench.waitForTerminal('ls -1');
    await workbench.waitForText('joined');
  }, 'reloaded');
  await step('the sessions are listed after a restart of the host', async () => {
    await host.stop();
    await host.start();
    await workbench.send(script('Still there?', '!say Still **here**.'));
    await workbench.waitForAnswer('here');
    await workbench.waitForTurnEnd();
    await workbench.waitForListed('Say hello', /now|ago/);
    await workbench.waitForListed('Feed the horses', /now|ago/);
  }, 'restarted');

  if (options.keep) {
    isInspecting = true;
    console.error(`\nEverything is still running: ${url}/?folder=${encodeURIComponent(project)}\nCtrl-C ends it.`);
    await new Promise(() => {});
  }
}

/** Runs a step, prints its result and takes a screenshot, also of a failure. */
async function step(what, work, name) {
  process.stderr.write(`${what} … `);
  const startedAt = Date.now();
  try {
    const result = await work();
    if (name) await takeScreenshot(name);
    console.error(`${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
    return result;
  } catch (error) {
    if (isStopped) throw error;
    console.error('failed');
    const shown = page && (await takeScreenshot('failed').catch(() => undefined));
    const reason = describeError(error);
    throw new Error(`Failed step: ${what}. ${reason}${shown ? `\nScreenshot: ${shown}` : ''}`);
  }
}

/** The first line of an error, and what it waited for. */
function describeError(error) {
  const lines = error.message.replace(/\u001b\[\d+m/g, '').split('\n');
  const waited = lines.find((line) => line.includes('waiting for'));
  return waited ? `${lines[0]} (${waited.replace(/^[\s-]*/, '')})` : lines[0];
}

async function takeScreenshot(name) {
  screenshots += 1;
  const file = path.join(options.out, `${String(screenshots).padStart(2, '0')}-${name}.png`);
  await page.screenshot({ path: file });
  return file;
}

/** Creates a repository with one file. */
function makeProject(home) {
  const project = path.join(home, 'stable');
  fs.mkdirSync(project);
  fs.mkdirSync(path.join(home, 'run'), { mode: 0o700 });
  fs.writeFileSync(path.join(project, 'horses.md'), '# Horses\n\n* Bella\n* Cæsar\n* Dolly\n');
  const git = (...args) => execFileSync('git', ['-c', 'user.name=Stable', '-c', 'user.email=stable@example.com', ...args], { cwd: project });
  git('init', '--quiet', '--initial-branch=main');
  git('add', '.');
  git('commit', '--quiet', '--message=Horses');
  return project;
}

async function openBrowser(home) {
  const { chromium } = createRequire(path.join(options.playwright, 'package.json'))('playwright-core');
  const context = await chromium.launchPersistentContext(path.join(home, 'browser'), {
    executablePath: options.chromium,
    headless: !options.headed,
    viewport: { width: 1440, height: 900 },
    // Chromium does not run its sandbox as root.
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
  onCleanup(() => context.close());
  return context.pages()[0];
}

/** A message for the scripted model: a text for people, then the directives. */
function script(text, ...directives) {
  return [text, ...directives].join('\n');
}

function json(value) {
  return JSON.stringify(value);
}

for (const old of fs.readdirSync(options.out)) {
  if (/^\d\d-.*\.png$|\.log$|^frames\.jsonl$/.test(old)) fs.rmSync(path.join(options.out, old));
}
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal));
const interrupted = Promise.race(signals).then(() => {
  isStopped = true;
  console.error(isInspecting ? '' : '\ninterrupted');
  return isInspecting ? 0 : 130;
});
const journey = main().then(
  () => {
    console.error(`\nAll steps passed. Screenshots: ${options.out}`);
    return 0;
  },
  (error) => {
    if (!isStopped) console.error(`\n${error.message}`);
    return 1;
  },
);
const code = await Promise.race([journey, interrupted]);
await cleanUp();
process.exit(code);
