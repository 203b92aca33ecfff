/** One open session and its commands. */

import type { ChannelView } from '../channel.ts';
import type { ChannelHandle, Client } from '../client.ts';
import type { Readable } from '../observable.ts';
import type { Action, Envelope, JsonObject, SessionState, Uri } from '../types/index.ts';

export class Session {
  readonly uri: Uri;
  readonly view: Readable<ChannelView<SessionState>>;
  readonly #client: Client;
  readonly #handle: ChannelHandle<'session'>;

  constructor(client: Client, uri: Uri) {
    this.#client = client;
    this.#handle = client.open('session', uri);
    this.uri = uri;
    this.view = this.#handle.view;
  }

  close(): void {
    this.#handle.close();
  }

  dispatch(action: Action): Promise<Envelope> {
    return this.#handle.dispatch(action);
  }

  rename(title: string): Promise<Envelope> {
    return this.dispatch({ type: 'session/titleChanged', title });
  }

  setRead(isRead: boolean): Promise<Envelope> {
    return this.dispatch({ type: 'session/isReadChanged', isRead });
  }

  setArchived(isArchived: boolean): Promise<Envelope> {
    return this.dispatch({ type: 'session/isArchivedChanged', isArchived });
  }

  configure(config: JsonObject): Promise<Envelope> {
    return this.dispatch({ type: 'session/configChanged', config });
  }

  /** Deletes the session for all clients. */
  async dispose(): Promise<void> {
    await this.#client.request('disposeSession', { channel: this.uri });
  }
}
