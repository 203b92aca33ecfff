/** Search state. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { SessionSearchResult } from '../src/core/hostler-extensions.ts';
import { SearchState } from '../src/sessions/search-state.svelte.ts';
import { createClient, FakeServer, until } from './support/fake-server.ts';

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

async function startSearch() {
  const { client, world } = createClient(server.url);
  client.start();
  const connection = await server.connections.next();
  await connection.completeHandshake();
  await until(client.connection, ({ phase }) => phase === 'ready');
  const search = new SearchState(client);
  stop = () => {
    search.close();
    client.stop();
  };
  return { search, connection, world };
}

function searchResult(name: string): SessionSearchResult {
  return { session: `p:/${name}`, title: name, modifiedAtMs: 0, matchingTurns: 1, hits: [] };
}

const names = (search: SearchState) => search.items.map(({ title }) => title);

test('result pages are appended without duplicates', async () => {
  const { search, connection } = await startSearch();
  search.search(' hay ');
  const first = await connection.expect('hostler/search');
  expect(first.params).toMatchObject({ query: 'hay', offset: 0 });
  connection.answer(first, { items: [searchResult('a'), searchResult('b')], nextOffset: 2, pendingSessions: 0 });
  await vi.waitFor(() => expect(search.answeredQuery).toBe('hay'));
  expect(search.hasMore).toBe(true);
  search.loadMore();
  const second = await connection.expect('hostler/search');
  expect(second.params).toMatchObject({ query: 'hay', offset: 2 });
  connection.answer(second, { items: [searchResult('b'), searchResult('c')], pendingSessions: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a', 'b', 'c']));
  expect(search.hasMore).toBe(false);
});

test('a late response is ignored', async () => {
  const { search, connection } = await startSearch();
  search.search('hay');
  const old = await connection.expect('hostler/search');
  search.search('oats');
  const request = await connection.expect('hostler/search');
  connection.answer(old, { items: [searchResult('old')], pendingSessions: 0 });
  connection.answer(request, { items: [searchResult('new')], pendingSessions: 0 });
  await vi.waitFor(() => expect(search.answeredQuery).toBe('oats'));
  expect(names(search)).toEqual(['new']);
  expect(search.isLoading).toBe(false);
});

test('partial failures are reported, and external sessions are searched on request', async () => {
  const { search, connection } = await startSearch();
  search.search('hay', true);
  const request = await connection.expect('hostler/search');
  expect(request.params).toMatchObject({ query: 'hay', includeUnlisted: true });
  connection.answer(request, { items: [searchResult('a')], pendingSessions: 0, indexError: 'The disk is on fire.' });
  await vi.waitFor(() => expect(search.partialFailure).toBe('The disk is on fire.'));
  expect(names(search)).toEqual(['a']);
  search.search('oats');
  const next = await connection.expect('hostler/search');
  expect(next.params).not.toHaveProperty('includeUnlisted');
  connection.answer(next, { items: [], pendingSessions: 0 });
  await vi.waitFor(() => expect(search.answeredQuery).toBe('oats'));
  expect(search.partialFailure).toBeUndefined();
});

test('the search polls while the host is indexing', async () => {
  const { search, connection, world } = await startSearch();
  search.search('hay');
  connection.answer(await connection.expect('hostler/search'), { items: [], pendingSessions: 3 });
  await vi.waitFor(() => expect(search.pendingSessions).toBe(3));
  world.advance(2_000);
  connection.answer(await connection.expect('hostler/search'), { items: [searchResult('a')], pendingSessions: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a']));
  expect(search.pendingSessions).toBe(0);
});

test('an empty query sends no request and shows no results', async () => {
  const { search, connection } = await startSearch();
  search.search('hay');
  connection.answer(await connection.expect('hostler/search'), { items: [searchResult('a')], pendingSessions: 0 });
  await vi.waitFor(() => expect(names(search)).toEqual(['a']));
  search.search('  ');
  expect(names(search)).toEqual([]);
  expect(search.answeredQuery).toBeUndefined();
});
