/** Begins a session: makes it, and says the first words in it. */

import type { Chat, Host, JsonObject, Session, Uri, UserMessage } from '../ahp/index.ts';

export interface Beginning {
  readonly provider: string;
  readonly directory: Uri;
  readonly config: JsonObject;
}

/** A session that was made, with its chat held open. */
export interface Begun {
  readonly uri: Uri;
  readonly chat: Chat;
}

export async function begin(host: Host, { provider, directory, config }: Beginning): Promise<Begun> {
  const chosen = Object.keys(config).length > 0;
  const uri = await host.createSession(provider, { workingDirectories: [directory], ...(chosen && { config }) });
  const session = host.openSession(uri);
  try {
    return { uri, chat: host.openChat(await defaultChat(session)) };
  } finally {
    session.close();
  }
}

/** The first message names its model, as far as one was chosen. */
export function firstWords(text: string, config: JsonObject): UserMessage {
  const { model } = config;
  return { text, ...(typeof model === 'string' && { model: { id: model } }) };
}

function defaultChat(session: Session): Promise<Uri> {
  return new Promise((resolve, reject) => {
    let stop: (() => void) | undefined;
    let isDone = false;
    const end = (run: () => void) => {
      isDone = true;
      stop?.();
      run();
    };
    stop = session.view.subscribe(({ state, error }) => {
      const uri = state?.defaultChat;
      if (isDone) return;
      if (uri !== undefined) end(() => resolve(uri));
      else if (error) end(() => reject(error));
    });
    if (isDone) stop();
  });
}
