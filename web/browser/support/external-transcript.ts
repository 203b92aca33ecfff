/** Writes external transcripts of the agent's own command, which the host imports when they are opened. */

import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Uri } from '../../src/ahp/index.ts';
import type { HostProcess } from '../../tests/support/host-process.ts';

/** Text of the answers: prose, with code in some of them. */
const PROSE =
  'It is read once, stays in memory while a client is connected, and is written back when the last one disconnects. ';
const CODE = '\n\n```rust\nfn run(watch: &mut Watch) -> Result<(), Error> {\n    watch.until(Dawn)\n}\n```\n';

/** Writes a transcript with this many turns; the last answer starts with `answer` and their number. */
export function writeExternalTranscript(hostler: HostProcess, turns: number): Uri {
  const id = randomUUID();
  const directory = join(hostler.path('claude'), 'projects', hostler.path('work').replace(/[^a-zA-Z0-9]/g, '-'));
  mkdirSync(directory, { recursive: true });
  const lines: string[] = [];
  let parentUuid: string | null = null;
  const write = (type: string, message: object, at: number) => {
    const uuid = randomUUID();
    const common = { isSidechain: false, userType: 'external', entrypoint: 'cli', version: '2', gitBranch: 'main' };
    const timestamp = new Date(Date.UTC(2026, 0, 1) + at * 1_000).toISOString();
    lines.push(
      JSON.stringify({
        parentUuid,
        type,
        message,
        uuid,
        timestamp,
        cwd: hostler.path('work'),
        sessionId: id,
        ...common,
      }),
    );
    parentUuid = uuid;
  };
  for (let turn = 1; turn <= turns; turn++) {
    write('user', { role: 'user', content: [{ type: 'text', text: `question ${turn}` }] }, 2 * turn);
    const text = `answer ${turn}: ${PROSE}${turn % 5 === 0 ? CODE : ''}`;
    const message = { id: `m${turn}`, role: 'assistant', model: 'm', content: [{ type: 'text', text }] };
    write(
      'assistant',
      { ...message, stop_reason: 'end_turn', usage: { input_tokens: 10, output_tokens: 5 } },
      2 * turn + 1,
    );
  }
  writeFileSync(join(directory, `${id}.jsonl`), `${lines.join('\n')}\n`);
  return `claude:/${id}`;
}
