/** Stores of the AHP client: batching, session list and chats. */

import { afterEach, beforeEach, expect, test } from 'vitest';
import { BatchedValue, UpdateBatch } from '../src/ahp/observable.ts';
import { Chat } from '../src/ahp/stores/chat.ts';
import { SessionListStore } from '../src/ahp/stores/sessions.ts';
import type { SessionSummary } from '../src/ahp/types/index.ts';
import { FakeEnvironment, settled } from './support/fake-environment.ts';
import { createClient, FakeServer, type ServerConnection, until } from './support/fake-server.ts';

let server: FakeServer;
let stop: () => void;

beforeEach(async () => {
  server = await FakeServer.start();
  stop = () => undefined;
});

afterEach(async () => {
  stop();
  await server.stop();
});

async function connectHost() {
  const { client, world } = createClient(server.url);
  stop = () => client.stop();
  client.start();
  const connection = await server.connections.next();
  await connection.completeHandshake();
  await until(client.connection, ({ phase }) => phase === 'ready');
  return { client, world, connection };
}

function summary(name: string, modifiedAt: string, more: Partial<SessionSummary> = {}): SessionSummary {
  return { resource: `p:/${name}`, provider: 'p', title: name, status: 1, createdAt: '2026', modifiedAt, ...more };
}

async function page(connection: ServerConnection, items: SessionSummary[], nextCursor?: string) {
  const dispatched = await connection.expect('listSessions');
  connection.answer(dispatched, { items, ...(nextCursor && { nextCursor }) });
  return dispatched;
}

const names = (sessions: SessionListStore) => sessions.view.value.items.map(({ title }) => title);

test('changes are batched once per frame, and the last one is never lost', () => {
  const world = new FakeEnvironment(() => {
    throw new Error('no network');
  });
  world.drawsFrames = false;
  const batch = new UpdateBatch(world);
  let count = 0;
  let computed = 0;
  const value = new BatchedValue(batch, () => {
    computed += 1;
    return count;
  });
  const notified: number[] = [];
  value.subscribe((now) => notified.push(now));
  for (count = 1; count < 200; count++) value.invalidate();
  value.invalidate();
  expect(notified).toEqual([0]);
  expect(world.drawFrame()).toBe(true);
  expect(notified).toEqual([0, 200]);
  expect(computed).toBe(2);
  expect(world.drawFrame()).toBe(false);
});

test('a listener that throws does not affect the others', async () => {
  const world = new FakeEnvironment(() => {
    throw new Error('no network');
  });
  const batch = new UpdateBatch(world);
  let now = 0;
  const value = new BatchedValue(batch, () => now);
  const uncaught = new Promise<unknown>((resolve) => process.once('uncaughtException', resolve));
  const others = process.listeners('uncaughtException').slice(0, -1);
  // The test runner would report it as its own failure.
  for (const other of others) process.removeListener('uncaughtException', other);
  const notified: number[] = [];
  value.subscribe((seen) => {
    if (seen === 1) throw new Error('a broken view');
  });
  value.subscribe((seen) => notified.push(seen));
  now = 1;
  value.invalidate();
  world.drawFrame();
  expect(notified).toEqual([0, 1]);
  expect(await uncaught).toEqual(new Error('a broken view'));
  for (const other of others) process.on('uncaughtException', other);
});

test('the session list loads in pages and applies notifications', async () => {
  const { client, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  sessions.refresh();
  await page(connection, [summary('b', '2026-02'), summary('a', '2026-01')], 'next');
  await until(sessions.view, ({ loading }) => !loading);
  expect([names(sessions), sessions.view.value.hasMore]).toEqual([['b', 'a'], true]);

  const more = sessions.loadMore();
  expect((await page(connection, [summary('z', '2025-01')])).params.cursor).toBe('next');
  await more;
  connection.notify('root/sessionAdded', { channel: 'ahp-root://', summary: summary('c', '2026-03') });
  connection.notify('root/sessionSummaryChanged', { session: 'p:/a', changes: { modifiedAt: '2026-04', title: 'A' } });
  connection.notify('root/sessionRemoved', { session: 'p:/b' });
  await until(sessions.view, ({ items }) => items.length === 3 && items.every(({ title }) => title !== 'b'));
  expect([names(sessions), sessions.view.value.hasMore]).toEqual([['A', 'c', 'z'], false]);
  sessions.close();
});

test('notifications during a page load win over the page', async () => {
  const { client, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  sessions.refresh();
  const dispatched = await connection.expect('listSessions');
  connection.notify('root/sessionRemoved', { session: 'p:/gone' });
  connection.notify('root/sessionAdded', { summary: summary('new', '2026-05') });
  connection.notify('root/sessionSummaryChanged', { session: 'p:/new', changes: { status: 8 } });
  connection.answer(dispatched, {
    items: [summary('gone', '2026-01'), summary('new', '2026-05', { activity: 'from the page' })],
  });
  await until(sessions.view, ({ loading }) => !loading);
  expect(sessions.view.value.items).toEqual([summary('new', '2026-05', { status: 8 })]);
  sessions.close();
});

test('a change to an unloaded session reloads the list', async () => {
  const { client, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  connection.notify('root/sessionSummaryChanged', { session: 'p:/far', changes: { modifiedAt: '2026-09' } });
  await page(connection, [summary('far', '2026-09')]);
  await until(sessions.view, ({ items }) => items.length === 1);
  sessions.close();
});

test('after a reconnect the list reloads as far as it was loaded', async () => {
  const { client, world, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  sessions.refresh();
  await page(connection, [summary('a', '2026-01')]);
  await until(sessions.view, ({ items }) => items.length === 1);
  connection.drop();
  await until(client.connection, ({ phase }) => phase === 'waiting');
  world.nextTimer();
  const next = await server.connections.next();
  next.answer(await next.expect('reconnect'), { type: 'replay', actions: [], missing: [] });
  await page(next, [summary('b', '2026-02')]);
  await until(sessions.view, ({ items }) => items.at(0)?.title === 'b');
  expect(names(sessions)).toEqual(['b']);
  sessions.close();
});

test('a list that fails to load reports the error and keeps its items', async () => {
  const { client, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  sessions.refresh();
  connection.answerError(await connection.expect('listSessions'), -32603, 'The disk is gone.');
  const view = await until(sessions.view, ({ loading }) => !loading);
  expect(view.error?.message).toBe('The disk is gone.');
  sessions.close();
});

test('a failed page is retried on request from the same cursor', async () => {
  const { client, connection } = await connectHost();
  const sessions = new SessionListStore(client);
  sessions.refresh();
  await page(connection, [summary('b', '2026-02')], 'next');
  await until(sessions.view, ({ loading }) => !loading);
  const more = sessions.loadMore();
  connection.answerError(await connection.expect('listSessions'), -32603, 'The disk is gone.');
  await more;
  expect([names(sessions), sessions.view.value.error?.message]).toEqual([['b'], 'The disk is gone.']);

  sessions.retry();
  expect((await page(connection, [summary('a', '2026-01')])).params.cursor).toBe('next');
  const { error } = await until(sessions.view, ({ items }) => items.length === 2);
  expect([names(sessions), error]).toEqual([['b', 'a'], undefined]);
  sessions.close();
});

const CHAT = { resource: 'ahp-chat:/c', title: 'c', status: 1, modifiedAt: '2026-01-01T00:00:00.000Z' };

function turn(id: string) {
  return { id, message: { text: id, origin: { kind: 'user' } }, responseParts: [], state: 'complete' };
}

test('a chat opens with its last turns and loads older ones once', async () => {
  const { client, connection } = await connectHost();
  const chat = new Chat(client, 'ahp-chat:/c', 2);
  const dispatched = await connection.answerSubscribe(
    { ...CHAT, turns: [turn('3'), turn('4')], turnsNextCursor: 'x' },
    10,
  );
  expect(dispatched.params.view).toEqual({ turns: 2 });
  await until(chat.view, ({ status }) => status === 'live');
  const loading = [chat.loadOlder(), chat.loadOlder()];
  const fetch = await connection.expect('fetchTurns');
  expect(fetch.params).toEqual({ channel: 'ahp-chat:/c', cursor: 'x' });
  const loaded = { type: 'chat/turnsLoaded', turns: [turn('1'), turn('2')] };
  connection.notify('action', { channel: 'ahp-chat:/c', serverSeq: 11, action: loaded });
  connection.answer(fetch, {});
  await Promise.all(loading);
  expect(chat.view.value.state?.turns.map(({ id }) => id)).toEqual(['1', '2', '3', '4']);
  await chat.loadOlder();
  expect(connection.frames.count).toBe(0);
  chat.close();
});

test('hundreds of deltas between two frames are one change for subscribers', async () => {
  const { client, world, connection } = await connectHost();
  const chat = new Chat(client, 'ahp-chat:/c');
  const part = { kind: 'markdown', id: 'm', content: '' };
  const message = { text: 'hi', origin: { kind: 'user' } };
  const activeTurn = { id: 't', startedAt: CHAT.modifiedAt, message, responseParts: [part] };
  await connection.answerSubscribe(
    { ...CHAT, turns: Array.from({ length: 50 }, (_, at) => turn(`${at}`)), activeTurn },
    10,
  );
  const before = await until(chat.view, ({ status }) => status === 'live');
  await settled();
  world.drawsFrames = false;
  let notified = 0;
  const stopListening = chat.view.subscribe(() => {
    notified += 1;
  });
  for (let at = 1; at <= 400; at++) {
    connection.sendAction('ahp-chat:/c', 10 + at, { type: 'chat/delta', turnId: 't', partId: 'm', content: `${at} ` });
  }
  const ping = client.request('ping', { channel: 'ahp-root://' });
  connection.answer(await connection.expect('ping'), null);
  await ping;
  world.drawFrame();
  expect(notified).toBe(2);
  const { state } = chat.view.value;
  const text = state?.activeTurn?.responseParts[0];
  expect(text?.kind === 'markdown' && text.content.split(' ').length).toBe(401);
  // Unchanged items keep their identity, so that they are not rendered again.
  expect(state?.turns).toBe(before.state?.turns);
  stopListening();
  chat.close();
});

test('user actions in a chat appear before the host confirms them', async () => {
  const { client, connection } = await connectHost();
  const chat = new Chat(client, 'ahp-chat:/c');
  await connection.answerSubscribe({ ...CHAT, turns: [] }, 10);
  await until(chat.view, ({ status }) => status === 'live');
  // Open requests settle when the client stops.
  chat.send({ text: 'one' }).catch(() => undefined);
  chat.queue({ text: 'two' }, 'q').catch(() => undefined);
  chat.queue({ text: 'three' }, 'r').catch(() => undefined);
  chat.reorder(['r', 'q']).catch(() => undefined);
  chat.steer({ text: 'now' }, 's').catch(() => undefined);
  const { state, pending } = chat.view.value;
  expect(pending).toBe(5);
  expect(state?.activeTurn?.message).toEqual({ text: 'one', origin: { kind: 'user' } });
  expect(state?.queuedMessages?.map(({ id }) => id)).toEqual(['r', 'q']);
  expect(state?.steeringMessage?.id).toBe('s');
  chat.cancel().catch(() => undefined);
  expect(chat.view.value.state?.activeTurn).toBeUndefined();
  const sent = [];
  while (sent.length < 6) sent.push((await connection.expect('dispatchAction')).params.clientSeq);
  expect(sent).toEqual([1, 2, 3, 4, 5, 6]);
});
