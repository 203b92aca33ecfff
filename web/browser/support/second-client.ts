/** A second client of the host: prepares sessions and checks what the page changes. */

import { type Chat, type ChatState, Host, type Session, type Uri } from '../../src/ahp/index.ts';
import { nodeEnvironment, until } from '../../tests/support/fake-server.ts';
import type { HostProcess } from '../../tests/support/host-process.ts';

export interface OpenedSession {
  readonly uri: Uri;
  readonly session: Session;
  readonly chat: Chat;
}

export class SecondClient {
  readonly host: Host;
  readonly #hostler: HostProcess;

  private constructor(hostler: HostProcess) {
    this.#hostler = hostler;
    const backoff = { initialDelayMs: 20, maxDelayMs: 200 };
    this.host = new Host({
      url: () => hostler.url,
      environment: nodeEnvironment(),
      backoff,
      clientInfo: { name: 'browser tests' },
    });
  }

  static async connect(hostler: HostProcess): Promise<SecondClient> {
    const client = new SecondClient(hostler);
    client.host.start();
    await until(client.host.connection, ({ phase }) => phase === 'ready');
    return client;
  }

  /** Creates a session in a directory and opens its chat. */
  async createSession(directory: Uri = this.#hostler.work): Promise<OpenedSession> {
    const [agent] = this.host.root.value.state?.agents ?? [];
    return this.openSession(await this.host.createSession(agent?.provider ?? '', { workingDirectories: [directory] }));
  }

  async openSession(uri: Uri): Promise<OpenedSession> {
    const session = this.host.openSession(uri);
    const { state, error } = await until(session.view, ({ status }) => status === 'live' || status === 'gone');
    if (error) throw error;
    const chat = this.host.openChat(state?.defaultChat ?? '');
    await until(chat.view, ({ status }) => status === 'live');
    return { uri, session, chat };
  }

  /** Waits until the host lists a session; external ones appear after a delay. */
  async waitUntilListed(uri: Uri): Promise<Uri> {
    await until(this.host.sessions.view, ({ items }) => items.some(({ resource }) => resource === uri));
    return uri;
  }

  /** Creates a session in which each of these messages is answered. */
  async createAnsweredSession(...texts: string[]): Promise<OpenedSession> {
    const opened = await this.createSession();
    for (const text of texts) await opened.chat.queue({ text });
    await until(opened.chat.view, hasEndedTurns(texts.length));
    return opened;
  }

  stop(): void {
    this.host.stop();
  }
}

/** Whether a chat has this many turns and none is active. */
export function hasEndedTurns(count: number): (view: { state: ChatState | undefined }) => boolean {
  return ({ state }) => state?.turns.length === count && state.activeTurn === undefined;
}
