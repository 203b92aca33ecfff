/** Sessions in every state that a person meets. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ChatState, Uri } from '../../src/ahp/index.ts';
import { until } from '../../tests/support/server.ts';
import { type Client, ended, type Opened } from './client.ts';
import type { Stage } from './stage.ts';

export interface Seed {
  /** Answered, with tools that were approved, a file that was written and another one that was changed. */
  readonly finished: Uri;
  /** A tool waits for a person's word. */
  readonly waiting: Uri;
  /** The model answered with an error. */
  readonly failed: Uri;
  /** An answer that goes on for as long as anybody looks. */
  readonly working: Uri;
}

const SOURCE = `use std::time::Duration;

/// How long a lamp burns before it is looked after.
pub fn watch(hours: u64) -> Duration {
    Duration::from_secs(hours * 60)
}
`;

const SUMMARY = `!say The unit was wrong: \`watch\` multiplied hours by 60, which makes **minutes**. I changed one line and ran the check.\\n\\n\
| call | before | after |\\n|---|---|---|\\n| \`watch(1)\` | 60 s | 3600 s |\\n| \`watch(8)\` | 480 s | 28800 s |\\n\\n\
\`\`\`rust\\npub fn watch(hours: u64) -> Duration {\\n    Duration::from_secs(hours * 60 * 60)\\n}\\n\`\`\`\\n\\n\
Nothing else calls it.`;

const STORY = `!think The list is long, so an outline comes first.\n!pace 60\n!say ## What I found so far\\n\\nThe keeper's book has three kinds of \
entries, and only one of them is read by the lamp:\n!pace 400\n!deltas 10000 word `;

export async function seed(stage: Stage, client: Client): Promise<Seed> {
  const directory = (name: string) => {
    const path = join(stage.hostler.path('home'), name);
    mkdirSync(path, { recursive: true });
    return path;
  };
  const [lighthouse, orchard] = [directory('lighthouse'), directory('orchard')];
  const session = (path: string) => client.session(pathToFileURL(path).href);

  const failed = await session(orchard);
  await failed.chat.send({
    text: 'Count the apples of last autumn.\n!error 400 The request was refused: this model is not yours.',
  });
  await until(failed.chat.view, ended(1));
  await failed.session.rename('Count the apples');

  const finished = await session(lighthouse);
  const file = JSON.stringify(join(lighthouse, 'lamp.rs'));
  const [wrong, right] = ['hours * 60)', 'hours * 60 * 60)'].map((text) =>
    JSON.stringify(`Duration::from_secs(${text}`),
  );
  const calls = [
    `!tool Write {"file_path":${file},"content":${JSON.stringify(SOURCE)}}`,
    '!say Now the mistake itself.',
    `!tool Edit {"file_path":${file},"old_string":${wrong},"new_string":${right}}`,
    '!tool Bash {"command":"grep -n from_secs lamp.rs","description":"Looks at the changed line"}',
  ];
  const message = [
    'The lamp goes out an hour too early. Why?',
    '!think The unit may be wrong.',
    '!say Let me look.',
    ...calls,
    SUMMARY,
  ];
  await finished.chat.send({ text: message.join('\n') });
  await approveAll(finished);
  await finished.session.rename('The lamp goes out too early');

  const waiting = await session(lighthouse);
  await waiting.chat.send({
    text: 'Put the old lamp away.\n!say I would move it into the shed.\n!tool Bash {"command":"mv lamp.rs shed/","description":"Moves the lamp"}',
  });
  await until(waiting.chat.view, ({ state }) => pending(state).length > 0);
  await waiting.session.rename('Put the old lamp away');

  const working = await session(orchard);
  await working.chat.send({ text: `Read the keeper's book.\n${STORY}` });
  await until(working.chat.view, ({ state }) => (state?.activeTurn?.responseParts.length ?? 0) > 1);
  await working.session.rename("Read the keeper's book");
  return { finished: finished.uri, waiting: waiting.uri, failed: failed.uri, working: working.uri };
}

/** Says yes to each tool until the turn is over. */
async function approveAll({ chat }: Opened): Promise<void> {
  const asked = new Set<string>();
  await until(chat.view, (view) => {
    for (const id of pending(view.state).filter((id) => !asked.has(id))) {
      asked.add(id);
      chat.confirm(view.state?.activeTurn?.id ?? '', id, { approved: true }).catch(() => undefined);
    }
    return ended(1)(view);
  });
}

function pending(state: ChatState | undefined): string[] {
  const parts = state?.activeTurn?.responseParts ?? [];
  return parts.flatMap((part) =>
    part.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation' ? [part.toolCall.toolCallId] : [],
  );
}
