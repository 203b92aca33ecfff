/**
 * The AHP client against the real `hostler serve --upstream scripted` with the real agent. `HOSTLER_BIN` names the
 * binary; `cargo xtask web --check` sets it.
 */

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Environment, Socket } from '../src/ahp/environment.ts';
import { RejectedError } from '../src/ahp/errors.ts';
import { Host } from '../src/ahp/stores/host.ts';
import type { ChatState } from '../src/ahp/types/index.ts';
import { nodeEnvironment, until } from './support/fake-server.ts';
import { BINARY, HostProcess } from './support/host-process.ts';

/** A socket that can be cut. */
class CuttableSocket implements Pick<Environment, 'connect'> {
  #socket: WebSocket | undefined;

  connect(url: string): Socket {
    this.#socket = new WebSocket(url);
    return this.#socket as unknown as Socket;
  }

  cut(): void {
    this.#socket?.terminate();
  }
}

function text(chat: ChatState): string {
  const turns = [...chat.turns, ...(chat.activeTurn ? [chat.activeTurn] : [])];
  const parts = turns.flatMap((turn) => turn.responseParts);
  return parts.map((part) => (part.kind === 'markdown' ? part.content : '')).join('');
}

describe.skipIf(!BINARY)('the real host', () => {
  let hostler: HostProcess;
  let line: CuttableSocket;
  const hosts: Host[] = [];

  beforeEach(async () => {
    hostler = new HostProcess();
    line = new CuttableSocket();
    await hostler.start(BINARY ?? '');
  });

  afterEach(async () => {
    for (const host of hosts.splice(0)) host.stop();
    await hostler.stop();
    hostler.remove();
  });

  async function connected(): Promise<Host> {
    const environment = { ...nodeEnvironment(), connect: (url: string) => line.connect(url) };
    const backoff = { initialDelayMs: 20, maxDelayMs: 200 };
    const host = new Host({ url: () => hostler.url, environment, backoff, clientInfo: { name: 'web tests' } });
    hosts.push(host);
    host.start();
    await until(host.connection, ({ phase }) => phase === 'ready');
    return host;
  }

  /** A live session with its chat. */
  async function opened(host: Host) {
    const [agent] = host.root.value.state?.agents ?? [];
    const uri = await host.createSession(agent?.provider ?? '', { workingDirectories: [hostler.work] });
    const session = host.openSession(uri);
    const { state } = await until(session.view, ({ status }) => status === 'live');
    const chat = host.openChat(state?.defaultChat ?? '', 5);
    await until(chat.view, ({ status }) => status === 'live');
    return { uri, session, chat };
  }

  const ended = (count: number) => (view: { state: ChatState | undefined }) =>
    view.state?.turns.length === count && view.state.activeTurn === undefined;

  test('answers a message, another client sees it, and the list updates', async () => {
    const host = await connected();
    const { uri, session, chat } = await opened(host);
    const accepted = await chat.send({ text: 'hi there' });
    expect(accepted.origin?.clientId).toBe(host.client.clientId);
    const { state } = await until(chat.view, ended(1));
    expect(text(state as ChatState)).toBe('Hello from the scripted model. You said: hi there');
    await until(host.sessions.view, ({ items }) => items.some(({ resource }) => resource === uri));

    const other = await connected();
    await until(other.sessions.view, ({ items }) => items.length === 1);
    const same = other.openChat(chat.uri);
    const seen = await until(same.view, ({ status }) => status === 'live');
    expect(seen.state).toEqual(chat.view.value.state);

    await session.rename('A new name');
    await until(other.sessions.view, ({ items }) => items[0]?.title === 'A new name');
    await session.dispose();
    await until(other.sessions.view, ({ items }) => items.length === 0);
  });

  test('rolls back a rejected action', async () => {
    const host = await connected();
    const { session } = await opened(host);
    const before = session.view.value.state?.title;
    const answer = session.rename('');
    expect(session.view.value.state?.title).toBe('');
    await expect(answer).rejects.toBeInstanceOf(RejectedError);
    expect(session.view.value.state?.title).toBe(before);
  });

  test('resumes after a cut connection, and a pending action applies once', async () => {
    const host = await connected();
    const { chat } = await opened(host);
    await chat.send({ text: '!pace 5\n!deltas 200' });
    await until(chat.view, ({ state }) => (state ? text(state).length > 50 : false));
    // The action is written, and the connection is cut before the host can respond.
    const queued = chat.queue({ text: 'and then' }, 'q1');
    line.cut();
    await until(host.connection, ({ phase }) => phase === 'waiting');
    await queued;
    const { state } = await until(chat.view, ended(2));
    expect(state?.turns.map(({ message }) => message.text)).toEqual(['!pace 5\n!deltas 200', 'and then']);
    const other = await connected();
    const same = other.openChat(chat.uri);
    expect((await until(same.view, ({ status }) => status === 'live')).state).toEqual(state);
    expect(text(state as ChatState)).toContain(Array.from({ length: 200 }, (_, at) => `${at + 1} `).join(''));
  });

  test('accepts the client again after a kill and restart', async () => {
    const host = await connected();
    const { session, chat } = await opened(host);
    await chat.send({ text: 'before' });
    await until(chat.view, ended(1));
    await hostler.stop('SIGKILL');
    await until(host.connection, ({ phase }) => phase === 'waiting');
    // The user keeps typing while disconnected.
    const renamed = session.rename('While you were away');
    await hostler.start(BINARY ?? '');
    await renamed;
    await until(chat.view, ({ status }) => status === 'live');
    await chat.send({ text: 'after' });
    const { state } = await until(chat.view, ended(2));
    expect(state?.turns.map(({ message }) => message.text)).toEqual(['before', 'after']);
    expect(session.view.value.state?.title).toBe('While you were away');
  });

  test('opens a long chat at its end and loads it to the beginning', async () => {
    const host = await connected();
    const { chat } = await opened(host);
    for (let at = 1; at <= 8; at++) await chat.queue({ text: `message ${at}` });
    await until(chat.view, ended(8));
    const other = await connected();
    const window = other.openChat(chat.uri, 3);
    const { state } = await until(window.view, ({ status }) => status === 'live');
    expect(state?.turns.map(({ message }) => message.text)).toEqual(['message 6', 'message 7', 'message 8']);
    while (window.view.value.state?.turnsNextCursor !== undefined) await window.loadOlder();
    expect(window.view.value.state).toEqual(chat.view.value.state);
  });

  test('lets one of two clients answer a request, and both see it', async () => {
    const host = await connected();
    const { chat } = await opened(host);
    await chat.send({ text: '!tool Bash {"command":"touch made-by-the-agent"}' });
    const other = await connected();
    const same = other.openChat(chat.uri);
    const waiting = await until(same.view, ({ state }) =>
      (state?.activeTurn?.responseParts ?? []).some(
        (part) => part.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation',
      ),
    );
    const part = waiting.state?.activeTurn?.responseParts.find((one) => one.kind === 'toolCall');
    if (part?.kind !== 'toolCall') throw new Error('there is no call');
    const verdict = same.confirm(waiting.state?.activeTurn?.id ?? '', part.toolCall.toolCallId, { approved: true });
    await verdict;
    const { state } = await until(chat.view, ended(1));
    const calls = state?.turns[0]?.responseParts.flatMap((one) =>
      one.kind === 'toolCall' ? [one.toolCall.status] : [],
    );
    expect(calls).toEqual(['completed']);
  });
});
