/** Sample sessions in every state. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ChatState, Uri } from '../../src/ahp/index.ts';
import { until } from '../../tests/support/fake-server.ts';
import type { BrowserHarness } from './harness.ts';
import { scriptText } from './model-script.ts';
import { hasEndedTurns, type OpenedSession, type SecondClient } from './second-client.ts';

export interface SampleSessions {
  /** Answered, with approved tools, a new file and a changed file. */
  readonly finished: Uri;
  /** A tool confirmation is pending. */
  readonly waiting: Uri;
  /** The model answered with an error. */
  readonly failed: Uri;
  /** An answer that streams until the test ends. */
  readonly working: Uri;
}

const SOURCE = `use std::time::Duration;

/// How long a lamp burns before it is looked after.
pub fn watch(hours: u64) -> Duration {
    Duration::from_secs(hours * 60)
}
`;

const SUMMARY = `The unit was wrong: \`watch\` multiplied hours by 60, which makes **minutes**. I changed one line and looked at it again.

| call | before | after |
|---|---|---|
| \`watch(1)\` | 60 s | 3600 s |
| \`watch(8)\` | 480 s | 28800 s |

\`\`\`rust
pub fn watch(hours: u64) -> Duration {
    Duration::from_secs(hours * 60 * 60)
}
\`\`\`

Nothing else calls it.`;

const LONG_ANSWER = `# What I found so far

The keeper's book has three kinds of entries, and only one of them is read by the lamp:

1. **Weather**, twice a day. It is not read afterwards.
2. **Oil**, whenever some is brought. The lamp reads it at dusk.
3. **Visitors**, in the order in which they came up the stairs`;

export async function createSampleSessions(harness: BrowserHarness, client: SecondClient): Promise<SampleSessions> {
  const home = harness.host.path('home');
  const [lighthouse, orchard] = [join(home, 'lighthouse'), join(home, 'orchard')];
  const begin = async (
    directory: string,
    title: string,
    command: string,
    prompt: string,
    script: readonly string[],
  ) => {
    const commands = harness.host.path('claude/commands');
    for (const made of [directory, commands]) mkdirSync(made, { recursive: true });
    // The model script is a user slash command, so that the message reads naturally.
    writeFileSync(join(commands, `${command}.md`), script.join('\n'));
    const opened = await client.createSession(pathToFileURL(directory).href);
    await opened.chat.send({ text: `/${command} ${prompt}` });
    await opened.session.rename(title);
    return opened;
  };

  const failed = await begin(orchard, 'Count the apples', 'count', 'The apples of last autumn, please.', [
    '!error 400 This model cannot be used with your account.',
  ]);
  await until(failed.chat.view, hasEndedTurns(1));

  const file = JSON.stringify(join(lighthouse, 'lamp.rs'));
  const [wrong, right] = ['hours * 60)', 'hours * 60 * 60)'].map((text) =>
    JSON.stringify(`Duration::from_secs(${text}`),
  );
  const finished = await begin(lighthouse, 'The lamp goes out too early', 'why', 'The lamp goes out too early.', [
    '!think The unit may be wrong: a watch has hours, and the lamp counts seconds.',
    '!say Let me look at how a watch is counted.',
    `!tool Write {"file_path":${file},"content":${JSON.stringify(SOURCE)}}`,
    '!say There it is.',
    `!tool Edit {"file_path":${file},"old_string":${wrong},"new_string":${right}}`,
    '!tool Bash {"command":"grep -n from_secs lamp.rs","description":"Looks at the changed line"}',
    scriptText(SUMMARY),
  ]);
  await approveAll(finished);

  const waiting = await begin(lighthouse, 'Put the old lamp away', 'tidy', 'Put the old lamp away.', [
    '!say I would move it into the shed.',
    '!tool Bash {"command":"mkdir -p shed && mv lamp.rs shed/","description":"Moves the lamp into the shed"}',
  ]);
  await until(waiting.chat.view, ({ state }) => pending(state).length > 0);

  const working = await begin(orchard, "Read the keeper's book", 'read', "The keeper's book, from its beginning.", [
    '!think The book is long, so an outline comes first.',
    scriptText(LONG_ANSWER),
    '!hang',
  ]);
  await until(working.chat.view, ({ state }) => {
    const last = state?.activeTurn?.responseParts.at(-1);
    return last?.kind === 'markdown' && last.content.endsWith('the stairs');
  });
  return { finished: finished.uri, waiting: waiting.uri, failed: failed.uri, working: working.uri };
}

/** Approves tools until the turn ends. */
async function approveAll({ chat }: OpenedSession): Promise<void> {
  const asked = new Set<string>();
  await until(chat.view, (view) => {
    for (const id of pending(view.state).filter((id) => !asked.has(id))) {
      asked.add(id);
      chat.confirm(view.state?.activeTurn?.id ?? '', id, { approved: true }).catch(() => undefined);
    }
    return hasEndedTurns(1)(view);
  });
}

function pending(state: ChatState | undefined): string[] {
  const parts = state?.activeTurn?.responseParts ?? [];
  return parts.flatMap((part) =>
    part.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation' ? [part.toolCall.toolCallId] : [],
  );
}
