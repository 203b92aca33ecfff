/** Creates a session and its first message. */

import type { Chat, Host, JsonObject, Session, Uri, UserMessage } from '../ahp/index.ts';

/** Storage key of the first message of a new session. */
export const NEW_SESSION_TEXT_KEY = 'new.text';

export interface NewSessionOptions {
  readonly provider: string;
  readonly directory: Uri;
  readonly config: JsonObject;
}

/** A created session with its open chat; the caller closes it. */
export interface CreatedSession {
  readonly uri: Uri;
  readonly chat: Chat;
}

export async function createSession(
  host: Host,
  { provider, directory, config }: NewSessionOptions,
): Promise<CreatedSession> {
  const chosen = Object.keys(config).length > 0;
  const uri = await host.createSession(provider, { workingDirectories: [directory], ...(chosen && { config }) });
  const session = host.openSession(uri);
  try {
    return { uri, chat: host.openChat(await waitForDefaultChat(session)) };
  } finally {
    session.close();
  }
}

/** The first message, with the chosen model. */
export function firstMessage(text: string, config: JsonObject): UserMessage {
  const { model } = config;
  return { text, ...(typeof model === 'string' && { model: { id: model } }) };
}

function waitForDefaultChat(session: Session): Promise<Uri> {
  return new Promise((resolve, reject) => {
    let stop: (() => void) | undefined;
    let isDone = false;
    const finish = (run: () => void) => {
      isDone = true;
      stop?.();
      run();
    };
    stop = session.view.subscribe(({ state, error }) => {
      const uri = state?.defaultChat;
      if (isDone) return;
      if (uri !== undefined) finish(() => resolve(uri));
      else if (error) finish(() => reject(error));
    });
    if (isDone) stop();
  });
}
