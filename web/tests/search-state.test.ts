/** A search that goes on. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { SessionSearchResult } from '../src/ahp/index.ts';
import { Search } from '../src/sessions/search-state.svelte.ts';
import { clientOf, Server, until } from './support/fake-server.ts';

let server: Server;
let stop: () => void;

beforeEach(async () => {
  server = await Server.start();
  stop = () => undefined;
});

afterEach(async () => {
  stop();
  await server.stop();
});

async function begun() {
  const { client, world } = clientOf(server.url);
  client.start();
  const connection = await server.connections.next();
  await connection.meet();
  await until(client.connection, ({ phase }) => phase === 'ready');
  const search = new Search(client);
  stop = () => {
    search.close();
    client.stop();
  };
  return { search, connection, world };
}

function found(name: string): SessionSearchResult {
  return { session: `p:/${name}`, title: name, modifiedAtMs: 0, matching: 1, hits: [] };
}

const names = (search: Search) => search.items.map(({ title }) => title);

test('pages are put behind each other, and nothing is shown twice', async () => {
  const { search, connection } = await begun();
  search.look(' hay ');
  const first = await connection.expect('hostler/search');
  expect(first.params).toMatchObject({ query: 'hay', offset: 0 });
  connection.answer(first, { items: [found('a'), found('b')], nextOffset: 2, pending: 0 });
  await vi.waitFor(() => expect(search.answered).toBe('hay'));
  expect(search.hasMore).toBe(true);
  search.more();
  const second = await connection.expect('hostler/search');
  expect(second.params).toMatchObject({ query: 'hay', offset: 2 });
  connection.answer(second, { items: [found('b'), found('c')], pending: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a', 'b', 'c']));
  expect(search.hasMore).toBe(false);
});

test('an answer that is late is not shown', async () => {
  const { search, connection } = await begun();
  search.look('hay');
  const old = await connection.expect('hostler/search');
  search.look('oats');
  const wish = await connection.expect('hostler/search');
  connection.answer(old, { items: [found('old')], pending: 0 });
  connection.answer(wish, { items: [found('new')], pending: 0 });
  await vi.waitFor(() => expect(search.answered).toBe('oats'));
  expect(names(search)).toEqual(['new']);
  expect(search.busy).toBe(false);
});

test('what could not be searched is said, and what the list hides is looked through if somebody wants it', async () => {
  const { search, connection } = await begun();
  search.look('hay', true);
  const wish = await connection.expect('hostler/search');
  expect(wish.params).toMatchObject({ query: 'hay', all: true });
  connection.answer(wish, { items: [found('a')], pending: 0, trouble: 'The disk is on fire.' });
  await vi.waitFor(() => expect(search.trouble).toBe('The disk is on fire.'));
  expect(names(search)).toEqual(['a']);
  search.look('oats');
  const next = await connection.expect('hostler/search');
  expect(next.params).not.toHaveProperty('all');
  connection.answer(next, { items: [], pending: 0 });
  await vi.waitFor(() => expect(search.answered).toBe('oats'));
  expect(search.trouble).toBeUndefined();
});

test('while the host still reads, it is asked again', async () => {
  const { search, connection, world } = await begun();
  search.look('hay');
  connection.answer(await connection.expect('hostler/search'), { items: [], pending: 3 });
  await vi.waitFor(() => expect(search.pending).toBe(3));
  world.pass(2_000);
  connection.answer(await connection.expect('hostler/search'), { items: [found('a')], pending: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a']));
  expect(search.pending).toBe(0);
});

test('without words nothing is asked, and nothing is shown', async () => {
  const { search, connection } = await begun();
  search.look('hay');
  connection.answer(await connection.expect('hostler/search'), { items: [found('a')], pending: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a']));
  search.look('  ');
  expect(names(search)).toEqual([]);
  expect(search.answered).toBeUndefined();
});
