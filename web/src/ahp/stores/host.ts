/** One host: its client, session list and factories for sessions and chats. */

import type { ChannelView } from '../channel.ts';
import { Client, type ClientOptions } from '../client.ts';
import type { ConnectionState } from '../connection.ts';
import { newId } from '../environment.ts';
import type { Readable } from '../observable.ts';
import type { CommandParams, RootState, Uri } from '../types/index.ts';
import { Chat } from './chat.ts';
import { Session } from './session.ts';
import { SessionListStore } from './sessions.ts';

export class Host {
  readonly client: Client;
  readonly sessions: SessionListStore;

  constructor(options: ClientOptions) {
    this.client = new Client(options);
    this.sessions = new SessionListStore(this.client);
  }

  get connection(): Readable<ConnectionState> {
    return this.client.connection;
  }

  get root(): Readable<ChannelView<RootState>> {
    return this.client.root;
  }

  start(): void {
    this.client.start();
  }

  stop(): void {
    this.sessions.close();
    this.client.stop();
  }

  /** Opens a session; the caller closes it. */
  openSession(uri: Uri): Session {
    return new Session(this.client, uri);
  }

  /** Opens a chat with its last turns; the caller closes it. */
  openChat(uri: Uri, turns?: number): Chat {
    return new Chat(this.client, uri, turns);
  }

  /** Creates a session. Other clients see it after its first message. */
  async createSession(
    provider: string,
    options: Omit<CommandParams<'createSession'>, 'channel' | 'provider'> = {},
  ): Promise<Uri> {
    const channel = `${provider}:/${newId()}`;
    await this.client.request('createSession', { channel, provider, ...options });
    return channel;
  }
}
