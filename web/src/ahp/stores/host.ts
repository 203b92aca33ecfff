/** A host, as a page shows it. */

import type { View } from '../channel.ts';
import { Client, type ClientOptions } from '../client.ts';
import type { LinkState } from '../connection.ts';
import { newId } from '../environment.ts';
import type { Readable } from '../observable.ts';
import type { Params, RootState, Uri } from '../types/index.ts';
import { Chat } from './chat.ts';
import { Session } from './session.ts';
import { Sessions } from './sessions.ts';

export class Host {
  readonly client: Client;
  readonly sessions: Sessions;

  constructor(options: ClientOptions) {
    this.client = new Client(options);
    this.sessions = new Sessions(this.client);
  }

  get connection(): Readable<LinkState> {
    return this.client.connection;
  }

  get root(): Readable<View<RootState>> {
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
  session(uri: Uri): Session {
    return new Session(this.client, uri);
  }

  /** Opens a chat with its last turns; whoever opens it closes it. */
  chat(uri: Uri, turns?: number): Chat {
    return new Chat(this.client, uri, turns);
  }

  /** Makes a session. Nobody else hears of it before its first message. */
  async create(provider: string, wish: Omit<Params<'createSession'>, 'channel' | 'provider'> = {}): Promise<Uri> {
    const channel = `${provider}:/${newId()}`;
    await this.client.request('createSession', { channel, provider, ...wish });
    return channel;
  }
}
