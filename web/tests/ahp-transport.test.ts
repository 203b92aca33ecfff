/** Transport of the AHP client over real sockets: network and host faults. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Client, ClientOptions } from '../src/ahp/client.ts';
import type { ConnectionState } from '../src/ahp/connection.ts';
import { ChannelGoneError, DisconnectedError, RejectedError, RpcError, TimeoutError } from '../src/ahp/errors.ts';
import type { Action, Meta } from '../src/ahp/types/index.ts';
import { readRejectionCode } from '../src/core/host-metadata.ts';
import { type FakeEnvironment, settled } from './support/fake-environment.ts';
import { createClient, FakeServer, type ServerConnection, until } from './support/fake-server.ts';

const SESSION = { provider: 'p', title: 'old', status: 1, lifecycle: 'ready', activeClients: [], chats: [] };
const URI = 'p:/1';

let server: FakeServer;
let client: Client;
let environment: FakeEnvironment;

beforeEach(async () => {
  server = await FakeServer.start();
});

afterEach(async () => {
  client.stop();
  expect(environment.timers).toBe(0);
  expect(environment.wakers).toBe(0);
  await server.stop();
});

function begin(options: Partial<ClientOptions> = {}): Promise<ServerConnection> {
  ({ client, world: environment } = createClient(server.url, options));
  client.start();
  return server.connections.next();
}

async function connectClient(options: Partial<ClientOptions> = {}): Promise<ServerConnection> {
  const connection = await begin(options);
  await connection.completeHandshake();
  await phase('ready');
  return connection;
}

function phase(name: ConnectionState['phase']): Promise<ConnectionState> {
  return until(client.connection, (state) => state.phase === name);
}

/** Drops the connection and waits for the reconnect. */
async function reconnectedAs(connection: ServerConnection): Promise<ServerConnection> {
  connection.drop();
  await phase('waiting');
  environment.nextTimer();
  return server.connections.next();
}

describe('connecting', () => {
  test('offers the protocol versions and subscribes to the root', async () => {
    const connection = await begin();
    const hello = await connection.expect('initialize');
    expect(hello.params).toEqual({
      channel: 'ahp-root://',
      clientId: 'c',
      protocolVersions: ['1.0.0', '0.9.0'],
      initialSubscriptions: ['ahp-root://'],
    });
    const snapshots = [{ resource: 'ahp-root://', state: { agents: [] }, fromSeq: 7 }];
    connection.answer(hello, { protocolVersion: '1.0.0', serverSeq: 7, snapshots });
    await phase('ready');
    expect(client.root.value).toEqual({ state: { agents: [] }, status: 'live', pending: 0 });
    expect(client.host.value?.protocolVersion).toBe('1.0.0');
  });

  test('does not retry when the host supports no common version', async () => {
    const connection = await begin();
    connection.answerError(await connection.expect('initialize'), -32005, 'Update the page.');
    expect(await phase('refused')).toEqual({ phase: 'refused', reason: 'Update the page.' });
    await connection.closed;
    expect(environment.timers).toBe(0);
    await expect(client.request('ping', { channel: 'ahp-root://' })).rejects.toThrow('Update the page.');
  });

  test('retries with growing delays after a failure', async () => {
    const waits: number[] = [];
    let connection = await begin();
    for (let attempt = 0; attempt < 8; attempt++) {
      await connection.expect('initialize');
      connection.drop();
      const state = await phase('waiting');
      if (state.phase === 'waiting') waits.push(state.until - environment.now());
      environment.nextTimer();
      connection = await server.connections.next();
    }
    // The random value is fixed: three quarters of the maximum delay.
    expect(waits).toEqual([375, 750, 1500, 3000, 6000, 12_000, 22_500, 22_500]);
  });

  test('times out when the socket does not open', async () => {
    ({ client, world: environment } = createClient('ws://127.0.0.1:1'));
    client.start();
    expect(await phase('waiting')).toMatchObject({ failures: 1 });
  });

  test('times out when the host accepts and stays silent', async () => {
    const connection = await begin({ requestTimeoutMs: 5_000 });
    await connection.expect('initialize');
    environment.advance(5_000);
    expect(await phase('waiting')).toMatchObject({
      reason: 'The host did not respond to initialize within 5 seconds. Try again.',
    });
    await connection.closed;
  });
});

describe('messages', () => {
  test.each([
    ['no JSON', 'hello'],
    ['no object', '[]'],
    ['binary', Buffer.from('{}')],
    ['an envelope without a number', '{"jsonrpc":"2.0","method":"action","params":{"channel":"p:/1"}}'],
    ['an action without anything', '{"jsonrpc":"2.0","method":"action"}'],
  ])('a frame that is %s closes the connection, and the client reconnects', async (_what, frame) => {
    const connection = await connectClient();
    connection.sendRaw(frame);
    expect(await phase('waiting')).toMatchObject({ reason: 'The host sent an invalid message.' });
    expect(await connection.closed).toBe(4002);
    environment.nextTimer();
    await (await server.connections.next()).expect('reconnect');
  });

  test('responses are matched in any order, including late and unknown ones', async () => {
    const connection = await connectClient();
    const first = client.request('ping', { channel: 'ahp-root://' });
    const second = client.request('resourceList', { channel: 'ahp-root://', uri: 'file:///' });
    const [one, other] = [await connection.expect('ping'), await connection.expect('resourceList')];
    connection.answer({ id: 999 }, 'unrequested');
    connection.answerError(other, -32008, 'There is no such directory.');
    connection.answer(one, null);
    await expect(second).rejects.toThrow(new RpcError(-32008, 'There is no such directory.'));
    expect(await first).toBeNull();
  });

  test('an error response exposes the stable code of its data', async () => {
    const connection = await connectClient();
    const answered = async (data?: unknown) => {
      const answer = client.request('ping', { channel: 'ahp-root://' });
      connection.answerError(await connection.expect('ping'), -32001, 'There is no such session.', data);
      return answer.catch((error: RpcError) => [error.code, error.errorCode]);
    };
    expect(await answered({ code: 'sessionNotFound' })).toEqual([-32001, 'sessionNotFound']);
    for (const data of [undefined, null, 'text', 7, [], {}, { code: '' }, { code: 7 }])
      expect(await answered(data)).toEqual([-32001, undefined]);
  });

  test('a request fails after its timeout and when the connection closes', async () => {
    const connection = await connectClient();
    const slow = client.request('ping', { channel: 'ahp-root://' }, { timeoutMs: 2_000 });
    await connection.expect('ping');
    environment.advance(2_000);
    await expect(slow).rejects.toBeInstanceOf(TimeoutError);
    const lost = client.request('ping', { channel: 'ahp-root://' });
    await connection.expect('ping');
    connection.drop();
    await expect(lost).rejects.toBeInstanceOf(DisconnectedError);
  });

  test('a request can be aborted by its caller', async () => {
    const connection = await connectClient();
    const stop = new AbortController();
    const request = client.request('ping', { channel: 'ahp-root://' }, { signal: stop.signal });
    await connection.expect('ping');
    stop.abort(new Error('never mind'));
    await expect(request).rejects.toThrow('never mind');
  });

  test('a request waits for a connection until its timeout', async () => {
    const connection = await begin();
    const early = client.request('ping', { channel: 'ahp-root://' });
    const hasty = client.request('ping', { channel: 'ahp-root://' }, { timeoutMs: 1_000 });
    environment.advance(1_000);
    await expect(hasty).rejects.toBeInstanceOf(DisconnectedError);
    await connection.completeHandshake();
    connection.answer(await connection.expect('ping'), null);
    expect(await early).toBeNull();
  });

  test('requests from the host run handlers or return unknown method', async () => {
    const connection = await connectClient();
    client.handle('resourceRead', ({ uri }) => ({ data: String(uri), encoding: 'utf-8' }));
    client.handle('resourceList', () => {
      throw new RpcError(-32009, 'That is private.');
    });
    const ask = async (id: number, method: string) => {
      connection.send({ id, method, params: { channel: 'ahp-root://', uri: 'x' } });
      const { result, error } = await connection.frames.next();
      return result ?? error;
    };
    expect(await ask(1, 'resourceRead')).toEqual({ data: 'x', encoding: 'utf-8' });
    expect(await ask(2, 'resourceList')).toEqual({ code: -32009, message: 'That is private.' });
    expect(await ask(3, 'resourceWrite')).toEqual({
      code: -32601,
      message: 'Unknown method: resourceWrite.',
    });
  });
});

describe('keepalive', () => {
  test('pings after silence, and a response resets the timer', async () => {
    const connection = await connectClient();
    environment.advance(15_000);
    connection.answer(await connection.expect('ping'), null);
    await settled();
    environment.advance(14_000);
    expect(connection.frames.count).toBe(0);
    expect(client.connection.value.phase).toBe('ready');
  });

  test('any message from the host resets the timer', async () => {
    const connection = await connectClient();
    environment.advance(10_000);
    const received = new Promise((resolve) => client.on('root/progress', resolve));
    connection.notify('root/progress', { progressToken: 'p', progress: 1 });
    await received;
    environment.advance(10_000);
    await settled();
    const request = client.request('resourceList', { channel: 'ahp-root://', uri: 'file:///' });
    // No request was sent before this.
    connection.answer(await connection.expect('resourceList'), { entries: [] });
    await request;
  });

  test('closes the connection when the ping times out', async () => {
    const connection = await connectClient();
    environment.advance(15_000);
    await connection.expect('ping');
    environment.advance(10_000);
    expect(await phase('waiting')).toMatchObject({ reason: 'The host is not responding.' });
    expect(await connection.closed).toBe(4003);
  });

  test('waking the page pings or reconnects at once', async () => {
    const connection = await connectClient();
    environment.wake();
    connection.answer(await connection.expect('ping'), null);
    connection.drop();
    await phase('waiting');
    environment.wake();
    await (await server.connections.next()).expect('reconnect');
  });

  test('retries rarely while offline, and at once when the network returns', async () => {
    const connection = await connectClient();
    environment.isNetworkUp = false;
    connection.drop();
    expect(await phase('waiting')).toMatchObject({ offline: true, until: environment.now() + 30_000 });
    environment.isNetworkUp = true;
    environment.wake();
    await (await server.connections.next()).expect('reconnect');
  });
});

describe('reconnecting', () => {
  test('a successful connection resets the backoff', async () => {
    const connection = await begin();
    await connection.expect('initialize');
    const next = await reconnectedAs(connection);
    await next.completeHandshake();
    await phase('ready');
    next.drop();
    expect(await phase('waiting')).toMatchObject({ failures: 1, until: environment.now() + 375 });
  });

  test('a replay continues at the last sequence number without applying anything twice', async () => {
    const connection = await connectClient();
    const session = client.open('session', URI);
    await connection.answerSubscribe(SESSION, 5);
    connection.sendAction(URI, 6, { type: 'session/titleChanged', title: 'six' });
    await until(session.view, ({ state }) => state?.title === 'six');
    const next = await reconnectedAs(connection);
    expect(session.view.value.status).toBe('disconnected');
    const dispatched = await next.expect('reconnect');
    expect(dispatched.params).toMatchObject({
      clientId: 'c',
      lastSeenServerSeq: 6,
      subscriptions: ['ahp-root://', URI],
    });
    const directory = { type: 'session/workingDirectorySet', directory: 'a' } as const;
    const actions = [
      { channel: URI, serverSeq: 6, action: { type: 'session/titleChanged', title: 'again' } },
      { channel: URI, serverSeq: 7, action: directory },
    ];
    next.answer(dispatched, { type: 'replay', actions, missing: [] });
    await phase('ready');
    expect(session.view.value).toMatchObject({ status: 'live', state: { title: 'six', workingDirectories: ['a'] } });
  });

  test('snapshots replace states, and channels without a snapshot are gone', async () => {
    const connection = await connectClient();
    const [restored, gone] = [client.open('session', URI), client.open('session', 'p:/2')];
    await connection.answerSubscribe(SESSION, 5);
    await connection.answerSubscribe(SESSION, 5);
    await until(gone.view, ({ status }) => status === 'live');
    const next = await reconnectedAs(connection);
    const dispatched = await next.expect('reconnect');
    const root = { resource: 'ahp-root://', state: { agents: [] }, fromSeq: 90 };
    const snapshots = [root, { resource: URI, state: { ...SESSION, title: 'new' }, fromSeq: 90 }];
    next.answer(dispatched, { type: 'snapshot', snapshots });
    await phase('ready');
    expect(restored.view.value).toMatchObject({ status: 'live', state: { title: 'new' } });
    expect(gone.view.value).toMatchObject({ status: 'gone', error: expect.any(ChannelGoneError) });
    await expect(gone.dispatch({ type: 'session/titleChanged', title: 'x' })).rejects.toBeInstanceOf(ChannelGoneError);
  });

  test('a host that forgot the client gets initialize on the same connection', async () => {
    const connection = await connectClient();
    const session = client.open('session', URI);
    await connection.answerSubscribe(SESSION, 5);
    await until(session.view, ({ status }) => status === 'live');
    const next = await reconnectedAs(connection);
    next.answerError(await next.expect('reconnect'), -32008, 'unknown client');
    await next.completeHandshake(0);
    await next.answerSubscribe({ ...SESSION, title: 'restored' }, 0);
    await until(session.view, ({ state }) => state?.title === 'restored');
  });

  test('an unconfirmed action is sent again once with the same clientSeq', async () => {
    const connection = await connectClient();
    const session = client.open('session', URI);
    await connection.answerSubscribe(SESSION, 5);
    await until(session.view, ({ status }) => status === 'live');
    const action = { type: 'session/titleChanged', title: 'mine' } as const;
    const answer = session.dispatch(action);
    expect(session.view.value).toMatchObject({ pending: 1, state: { title: 'mine' } });
    expect((await connection.expect('dispatchAction')).params).toEqual({ channel: URI, clientSeq: 1, action });
    const next = await reconnectedAs(connection);
    next.answer(await next.expect('reconnect'), { type: 'replay', actions: [], missing: [] });
    expect((await next.expect('dispatchAction')).params).toEqual({ channel: URI, clientSeq: 1, action });
    next.sendAction(URI, 6, action, { origin: { clientId: 'c', clientSeq: 1 } });
    expect((await answer).serverSeq).toBe(6);
    expect(next.frames.count).toBe(0);
    expect(session.view.value.pending).toBe(0);
  });

  test('an action whose echo is in the replay is not sent again', async () => {
    const connection = await connectClient();
    const session = client.open('session', URI);
    await connection.answerSubscribe(SESSION, 5);
    await until(session.view, ({ status }) => status === 'live');
    const action = { type: 'session/titleChanged', title: 'mine' } as const;
    const answer = session.dispatch(action);
    await connection.expect('dispatchAction');
    const next = await reconnectedAs(connection);
    const echo = { channel: URI, serverSeq: 6, action, origin: { clientId: 'c', clientSeq: 1 } };
    next.answer(await next.expect('reconnect'), { type: 'replay', actions: [echo], missing: [] });
    await answer;
    const ping = client.request('ping', { channel: 'ahp-root://' });
    // The next frame that the host receives.
    next.answer(await next.expect('ping'), null);
    await ping;
  });
});

test('a rejected action is rolled back and reports the reason', async () => {
  const connection = await connectClient();
  const session = client.open('session', URI);
  await connection.answerSubscribe(SESSION, 5);
  await until(session.view, ({ status }) => status === 'live');
  const reported: string[] = [];
  client.onRejected((error) => reported.push(error.message));
  const action = { type: 'session/titleChanged', title: '' } as const;
  const answer = session.dispatch(action);
  expect(session.view.value.state?.title).toBe('');
  connection.sendAction(URI, 6, action, {
    origin: { clientId: 'c', clientSeq: 1 },
    rejectionReason: 'A title has a letter.',
  });
  await expect(answer).rejects.toEqual(new RejectedError(URI, action, 'A title has a letter.'));
  expect(reported).toEqual(['A title has a letter.']);
  expect(session.view.value).toMatchObject({ pending: 0, state: { title: 'old' } });
});

test('a rejected action exposes the stable code of the rejection', async () => {
  const connection = await connectClient();
  const session = client.open('session', URI);
  await connection.answerSubscribe(SESSION, 5);
  await until(session.view, ({ status }) => status === 'live');
  const action = { type: 'session/titleChanged', title: '' } as const;
  const metas: [Meta | undefined, string | undefined][] = [
    [{ hostler: { code: 'invalidTitle' } }, 'invalidTitle'],
    [undefined, undefined],
    [{}, undefined],
    [{ hostler: 'text' }, undefined],
    [{ hostler: { code: 7 } }, undefined],
  ];
  for (const [index, [meta, code]] of metas.entries()) {
    const answer = session.dispatch(action);
    const origin = { clientId: 'c', clientSeq: index + 1 };
    const rejection = { origin, rejectionReason: 'A title has a letter.', ...(meta && { _meta: meta }) };
    connection.sendAction(URI, 6 + index, action, rejection);
    expect(await answer.catch((error: RejectedError) => readRejectionCode(error.meta))).toBe(code);
  }
});

test('a channel is subscribed once and released after the last handle closes', async () => {
  const connection = await connectClient({ pingAfterMs: 60_000 });
  const [one, other] = [client.open('session', URI), client.open('session', URI)];
  await connection.answerSubscribe(SESSION, 5);
  await until(one.view, ({ status }) => status === 'live');
  one.close();
  one.close();
  environment.advance(10_000);
  other.close();
  environment.advance(9_000);
  const again = client.open('session', URI);
  expect(again.view.value.status).toBe('live');
  again.close();
  environment.advance(10_000);
  expect((await connection.expect('unsubscribe')).params).toEqual({ channel: URI });
});

test('a channel with a pending action stays subscribed until it is confirmed', async () => {
  const connection = await connectClient();
  const session = client.open('session', URI);
  await connection.answerSubscribe(SESSION, 5);
  await until(session.view, ({ status }) => status === 'live');
  const action = { type: 'session/titleChanged', title: 'last title' } as const;
  const answer = session.dispatch(action);
  session.close();
  environment.advance(10_000);
  await connection.expect('dispatchAction');
  connection.sendAction(URI, 6, action, { origin: { clientId: 'c', clientSeq: 1 } });
  await answer;
  await connection.expect('unsubscribe');
});

test('an unknown channel is gone and can be reopened', async () => {
  const connection = await connectClient();
  const session = client.open('session', URI);
  connection.answerError(await connection.expect('subscribe'), -32001, 'There is no such session.');
  const view = await until(session.view, ({ status }) => status === 'gone');
  expect(view.error?.message).toBe('There is no such session.');
  client.open('session', URI);
  await connection.answerSubscribe(SESSION, 5);
  await until(session.view, ({ status }) => status === 'live');
});

describe('a failed subscription', () => {
  test('retries with growing delays after a timeout and keeps pending actions', async () => {
    const connection = await connectClient({ requestTimeoutMs: 5_000, pingAfterMs: 1_000_000 });
    const session = client.open('session', URI);
    const answer = session.dispatch({ type: 'session/titleChanged', title: 'waiting' });
    for (const wait of [375, 750]) {
      await connection.expect('subscribe');
      environment.advance(5_000);
      const view = await until(session.view, ({ error }) => error !== undefined);
      expect(view).toMatchObject({ status: 'loading', pending: 1 });
      expect(view.error?.message).toBe('The host did not respond to subscribe within 5 seconds. Try again.');
      await settled();
      environment.advance(wait - 1);
      expect(connection.frames.count).toBe(0);
      environment.advance(1);
    }
    await connection.answerSubscribe(SESSION, 5);
    const view = await until(session.view, ({ status }) => status === 'live');
    expect(view).toMatchObject({ state: { title: 'waiting' }, pending: 1 });
    expect(view.error).toBeUndefined();
    const { params } = await connection.expect('dispatchAction');
    connection.sendAction(URI, 6, params.action, { origin: { clientId: 'c', clientSeq: params.clientSeq } });
    await answer;
  });

  test('retries at once on request after a host error', async () => {
    const connection = await connectClient();
    const session = client.open('session', URI);
    connection.answerError(await connection.expect('subscribe'), -32603, 'The disk is full.');
    const view = await until(session.view, ({ error }) => error !== undefined);
    expect([view.status, view.error?.message]).toEqual(['loading', 'The disk is full.']);
    client.retry();
    expect((await until(session.view, ({ error }) => error === undefined)).status).toBe('loading');
    await connection.expect('ping');
    await connection.answerSubscribe(SESSION, 5);
    await until(session.view, ({ status }) => status === 'live');
  });

  test('stops retrying when the channel is released or the connection changes', async () => {
    let connection = await connectClient({ releaseDelayMs: 100 });
    client.open('session', URI).close();
    const other = client.open('session', 'p:/2');
    for (let asked = 0; asked < 2; asked++)
      connection.answerError(await connection.expect('subscribe'), -32603, 'The disk is full.');
    await until(other.view, ({ error }) => error !== undefined);
    environment.advance(100);
    await connection.expect('unsubscribe');
    connection = await reconnectedAs(connection);
    connection.answer(await connection.expect('reconnect'), { type: 'replay', actions: [], missing: [] });
    expect((await connection.answerSubscribe(SESSION, 5)).params.channel).toBe('p:/2');
    await until(other.view, ({ status }) => status === 'live');
    environment.advance(1_000);
    expect(connection.frames.count).toBe(0);
  });
});

test('an action that cannot be reduced resubscribes to the channel', async () => {
  const connection = await connectClient();
  const session = client.open('session', URI);
  const chats = [{ resource: 'ahp-chat:/c', title: 'c', status: 1, modifiedAt: '2026' }];
  await connection.answerSubscribe({ ...SESSION, chats }, 5);
  await until(session.view, ({ status }) => status === 'live');
  const action = { type: 'session/chatAdded' } as unknown as Action;
  connection.sendAction(URI, 6, action);
  connection.sendAction(URI, 7, { type: 'session/titleChanged', title: 'not for an old state' });
  await connection.answerSubscribe({ ...SESSION, title: 'whole again' }, 7);
  await until(session.view, ({ state }) => state?.title === 'whole again');
  connection.sendAction(URI, 8, { type: 'session/titleChanged', title: 'goes on' });
  await until(session.view, ({ state }) => state?.title === 'goes on');
});
