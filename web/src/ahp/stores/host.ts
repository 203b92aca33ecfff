/** A host, as a page shows it. */

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

  /** Opens a session; whoever opens it closes it. */
  openSession(uri: Uri): Session {
    return new Session(this.client, uri);
  }

  /** Opens a chat with its last turns; whoever opens it closes it. */
  openChat(uri: Uri, turns?: number): Chat {
    return new Chat(this.client, uri, turns);
  }

  /** Makes a session. Nobody else hears of it before its first message. */
  async createSession(
    provider: string,
    options: Omit<CommandParams<'createSession'>, 'channel' | 'provider'> = {},
  ): Promise<Uri> {
    const channel = `${provider}:/${newId()}`;
    await this.client.request('createSession', { channel, provider, ...options });
    return channel;
  }
}
