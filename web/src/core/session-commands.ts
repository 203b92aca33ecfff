/** Commands for sessions that need not be open. */

import { type Host, ROOT_CHANNEL, type Session, type Uri } from '../ahp/index.ts';

/** Opens a session for one command. */
async function withSession(host: Host, uri: Uri, run: (session: Session) => Promise<unknown>): Promise<void> {
  const session = host.openSession(uri);
  try {
    await run(session);
  } finally {
    session.close();
  }
}

export function renameSession(host: Host, uri: Uri, title: string): Promise<void> {
  return withSession(host, uri, (session) => session.rename(title));
}

export function setSessionRead(host: Host, uri: Uri, isRead: boolean): Promise<void> {
  return withSession(host, uri, (session) => session.setRead(isRead));
}

export function setSessionArchived(host: Host, uri: Uri, isArchived: boolean): Promise<void> {
  return withSession(host, uri, (session) => session.setArchived(isArchived));
}

/** Deletes a session for all clients, including the agent's transcript. */
export async function deleteSession(host: Host, uri: Uri): Promise<void> {
  await host.client.request('disposeSession', { channel: uri });
}

/** Sets or removes a tag. */
export async function setSessionTag(host: Host, uri: Uri, tag: string | null): Promise<void> {
  await host.client.request('hostler/tagSession', { channel: uri, tag });
}

/** Sets host configuration for all clients. */
export async function configureHost(host: Host, config: Readonly<Record<string, string>>): Promise<void> {
  const root = host.client.open('root', ROOT_CHANNEL);
  try {
    await root.dispatch({ type: 'root/configChanged', config });
  } finally {
    root.close();
  }
}
