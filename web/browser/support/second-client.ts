/** Another client of the same host: what it does, a page must show, and what is needed before a page opens, it makes. */

import { type Chat, type ChatState, Host, type Session, type Uri } from '../../src/ahp/index.ts';
import { node, until } from '../../tests/support/fake-server.ts';
import type { Hostler } from '../../tests/support/host-process.ts';

export interface Opened {
  readonly uri: Uri;
  readonly session: Session;
  readonly chat: Chat;
}

export class Client {
  readonly host: Host;
  readonly #hostler: Hostler;

  private constructor(hostler: Hostler) {
    this.#hostler = hostler;
    const backoff = { initialDelayMs: 20, maxDelayMs: 200 };
    this.host = new Host({
      url: () => hostler.url,
      environment: node(),
      backoff,
      clientInfo: { name: 'browser tests' },
    });
  }

  static async connect(hostler: Hostler): Promise<Client> {
    const client = new Client(hostler);
    client.host.start();
    await until(client.host.connection, ({ phase }) => phase === 'ready');
    return client;
  }

  /** A session in a directory, with its chat. */
  async session(directory: Uri = this.#hostler.work): Promise<Opened> {
    const [agent] = this.host.root.value.state?.agents ?? [];
    return this.open(await this.host.createSession(agent?.provider ?? '', { workingDirectories: [directory] }));
  }

  async open(uri: Uri): Promise<Opened> {
    const session = this.host.openSession(uri);
    const { state, error } = await until(session.view, ({ status }) => status === 'live' || status === 'gone');
    if (error) throw error;
    const chat = this.host.openChat(state?.defaultChat ?? '');
    await until(chat.view, ({ status }) => status === 'live');
    return { uri, session, chat };
  }

  /** Waits until the host lists a session: what others have written it finds after a while. */
  async listed(uri: Uri): Promise<Uri> {
    await until(this.host.sessions.view, ({ items }) => items.some(({ resource }) => resource === uri));
    return uri;
  }

  /** A session in which each of these messages has been answered. */
  async answered(...texts: string[]): Promise<Opened> {
    const opened = await this.session();
    for (const text of texts) await opened.chat.queue({ text });
    await until(opened.chat.view, ended(texts.length));
    return opened;
  }

  stop(): void {
    this.host.stop();
  }
}

/** Whether a chat has so many turns, and none of them goes on. */
export function ended(count: number): (view: { state: ChatState | undefined }) => boolean {
  return ({ state }) => state?.turns.length === count && state.activeTurn === undefined;
}
