// Drives VS Code on Hostler step by step: each step waits for what a person would see, and takes a screenshot.
//
// Called by `cargo xtask vscode` with one argument: the paths of all parts.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { relay } from './frames.mjs';
import { Host, atTheEnd, endAll, scratch, workbenchServer } from './parts.mjs';
import { Workbench } from './workbench.mjs';

const options = JSON.parse(process.argv[2]);
const AGENT = 'Claude';

/** Long enough to be seen while it comes. */
const STORY = [
  'Hello from the **stable**. This is who lives here:', '',
  '* *Bella*, who is calm and kind and lets everybody ride,',
  '* *Cæsar*, who is old and knows every path in the hills,',
  '* *Dolly*, who is fast and proud and likes apples more than anything.', '',
  'They have been fed, and their hooves are clean. All is well.',
].join('\\n');

let page;
let taken = 0;
/** Somebody wants it to end: whatever fails from then on is no news. */
let stopped = false;
/** Everything was seen, and a person looks at it now. */
let kept = false;

async function main() {
  const home = scratch();
  const project = makeProject(home);
  const host = new Host(options, home, project);
  let workbench;

  await step('the host starts', async () => {
    await host.start();
  });
  const url = await step("VS Code's server starts", async () => {
    const port = options.frames ? await relay(options, host) : host.port;
    return await workbenchServer(options, home, port);
  });
  await step('the workbench opens', async () => {
    page = await openBrowser(home);
    workbench = new Workbench(page);
    await workbench.open(url, project);
    await workbench.trust();
    await workbench.chooseAgent(AGENT);
    await workbench.makeRoom();
  });
  await step('an answer streams in', async () => {
    await workbench.say(script('Say hello', '!pace 60', `!say ${STORY}`));
    await workbench.answered('Bella');
    await workbench.listed('Say hello', 'Working');
    await picture('streaming');
    await workbench.answered('All is well');
    await workbench.settled();
    await workbench.listed('Say hello', /now|ago/);
  }, 'answer');
  await step('a command waits to be allowed', async () => {
    await workbench.say(script('Saddle up', `!tool Bash ${json({ command: 'echo saddle for Bella | tee saddles.txt', description: 'Get the saddles' })}`, '!say All are **saddled**.'));
    await workbench.asked('tee saddles.txt');
    await workbench.listed('Say hello', 'Input needed');
  }, 'allow');
  await step('it runs when it is allowed', async () => {
    await workbench.allow();
    await workbench.answered('saddled');
    await workbench.settled();
    await workbench.unfold();
    await workbench.hasFile('saddles.txt');
  }, 'allowed');
  await step('a question is asked', async () => {
    const question = { question: 'Which horse shall we ride?', header: 'Horse', multiSelect: false, options: [
      { label: 'Bella', description: 'Calm and kind' },
      { label: 'Dolly', description: 'Fast and proud' },
    ] };
    await workbench.say(script('Which one?', `!tool AskUserQuestion ${json({ questions: [question] })}`, '!say Off we go.'));
    await workbench.questioned('Which horse shall we ride?');
    await workbench.listed('Say hello', 'Input needed');
  }, 'question');
  await step('and answered', async () => {
    await workbench.choose('Dolly');
    await workbench.answered('Off we go.');
    await workbench.settled();
  }, 'answered');
  await step('an edit is shown before it is made', async () => {
    const file = path.join(project, 'horses.md');
    await workbench.say(script(
      'Add Ella', `!tool Read ${json({ file_path: file })}`,
      `!tool Edit ${json({ file_path: file, old_string: '* Dolly', new_string: '* Dolly\n* Ella' })}`, '!say Ella has **joined**.',
    ));
    await workbench.asked('horses.md');
    await workbench.viewChanges('horses.md', 'Ella');
  }, 'edit');
  await step('and made when it is allowed', async () => {
    await workbench.allow();
    await workbench.answered('joined');
    await workbench.settled();
    if (!fs.readFileSync(path.join(project, 'horses.md'), 'utf8').includes('* Ella')) throw new Error('the file was not changed');
    await workbench.unfold();
  }, 'edited');
  await step('a person runs a command of their own', async () => {
    await workbench.say('!ls -1');
    await workbench.shows('!ls -1');
    await workbench.ran('ls -1');
    await workbench.settled();
  }, 'command');
  await step('a second session begins', async () => {
    await page.getByRole('button', { name: 'New Session' }).click();
    await workbench.say(script('Feed the horses', '!say They eat **hay**.'));
    await workbench.lookAway();
    await workbench.answered('hay');
    await workbench.settled();
    await workbench.listed('Feed the horses', /now|ago/);
    await workbench.listed('Say hello', /now|ago/);
  }, 'sessions');
  await step('everything is there after a reload', async () => {
    await workbench.reload();
    await workbench.closeEditors();
    await workbench.openSession('Say hello');
    await workbench.ran('ls -1');
    await workbench.shows('joined');
  }, 'reloaded');
  await step('and after the host has been started anew', async () => {
    await host.stop();
    await host.start();
    await workbench.say(script('Still there?', '!say Still **here**.'));
    await workbench.answered('here');
    await workbench.settled();
    await workbench.listed('Say hello', /now|ago/);
    await workbench.listed('Feed the horses', /now|ago/);
  }, 'restarted');

  if (options.keep) {
    kept = true;
    console.error(`\nEverything keeps running: ${url}/?folder=${encodeURIComponent(project)}\nCtrl-C ends it.`);
    await new Promise(() => {});
  }
}

/** Does a step, says so, and keeps a picture of how it ended: of a failure, too. */
async function step(what, work, name) {
  process.stderr.write(`${what} … `);
  const begun = Date.now();
  try {
    const result = await work();
    if (name) await picture(name);
    console.error(`${((Date.now() - begun) / 1000).toFixed(1)} s`);
    return result;
  } catch (error) {
    if (stopped) throw error;
    console.error('no');
    const shown = page && (await picture('failed').catch(() => undefined));
    const why = reason(error);
    throw new Error(`This did not happen: ${what}. ${why}${shown ? `\nWhat was to be seen instead: ${shown}` : ''}`);
  }
}

/** The first line of an error, and what was waited for. */
function reason(error) {
  const lines = error.message.replace(/\u001b\[\d+m/g, '').split('\n');
  const waited = lines.find((line) => line.includes('waiting for'));
  return waited ? `${lines[0]} (${waited.replace(/^[\s-]*/, '')})` : lines[0];
}

async function picture(name) {
  taken += 1;
  const file = path.join(options.out, `${String(taken).padStart(2, '0')}-${name}.png`);
  await page.screenshot({ path: file });
  return file;
}

/** A repository with a file in it. */
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
  atTheEnd(() => context.close());
  return context.pages()[0];
}

/** A message for the scripted model: words for people, then what the model is to do. */
function script(words, ...lines) {
  return [words, ...lines].join('\n');
}

function json(value) {
  return JSON.stringify(value);
}

for (const old of fs.readdirSync(options.out)) {
  if (/^\d\d-.*\.png$|\.log$|^frames\.jsonl$/.test(old)) fs.rmSync(path.join(options.out, old));
}
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal));
const interrupted = Promise.race(signals).then(() => {
  stopped = true;
  console.error(kept ? '' : '\nended before its time');
  return kept ? 0 : 130;
});
const journey = main().then(
  () => {
    console.error(`\nEverything was seen; the pictures are in ${options.out}`);
    return 0;
  },
  (error) => {
    if (!stopped) console.error(`\n${error.message}`);
    return 1;
  },
);
const code = await Promise.race([journey, interrupted]);
await endAll();
process.exit(code);
