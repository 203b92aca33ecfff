/** Reducer fixtures shared with the host's state engine. See crates/hostler-engine/tests/data/ahp/README.md. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { reducers } from '../src/ahp/reducers/index.ts';
import type { Action, AnyChannelState, ChannelKind } from '../src/ahp/types/index.ts';

interface Fixture {
  description: string;
  reducer: string;
  initial: AnyChannelState;
  actions: Action[];
  expected: unknown;
}

const data = join(import.meta.dirname, '../../crates/hostler-engine/tests/data/ahp');
const sets = ['upstream-unchanged', 'ported', 'ours'];

/** Channel kinds that the host does not offer and this client does not reduce. */
const unreducedKinds = new Set(['canvas', 'automation', 'automationRun']);

function fixtures(): [string, Fixture][] {
  return sets.flatMap((set) => {
    const directory = join(data, set, 'reducers');
    return readdirSync(directory).map((file): [string, Fixture] => [
      `${set}/${file}`,
      JSON.parse(readFileSync(join(directory, file), 'utf8')),
    ]);
  });
}

/** JSON in comparable form: without nulls. All numbers are floats. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(entries.map(([key, member]) => [key, canonical(member)]));
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(frozen);
    Object.freeze(value);
  }
  return value;
}

const known = fixtures().filter(([, fixture]) => !unreducedKinds.has(fixture.reducer));

describe('every fixture reduces to the expected state', () => {
  test.each(known)('%s', (_name, fixture) => {
    // Mutating a frozen state would throw.
    const reduce = reducers[fixture.reducer as ChannelKind] as (
      state: AnyChannelState,
      action: Action,
    ) => AnyChannelState;
    const end = fixture.actions.reduce(
      (state, action) => frozen(reduce(state, frozen(action))),
      frozen(fixture.initial),
    );
    // `toStrictEqual` distinguishes absent from undefined properties.
    expect(canonical(end)).toStrictEqual(canonical(fixture.expected));
  });
});

test('an action without effect returns the same state', () => {
  const moved = known.filter(([, fixture]) => {
    const unmoved = JSON.stringify(canonical(fixture.initial)) === JSON.stringify(canonical(fixture.expected));
    const reduce = reducers[fixture.reducer as ChannelKind] as (
      state: AnyChannelState,
      action: Action,
    ) => AnyChannelState;
    return (
      unmoved &&
      fixture.actions.length === 1 &&
      fixture.actions.some((action) => reduce(fixture.initial, action) !== fixture.initial)
    );
  });
  // Setting an equal value may create an equal new state, which is harmless.
  expect(moved.filter(([name]) => /unknown|no-?op|wrong|without-activeturn/i.test(name)).map(([name]) => name)).toEqual(
    [],
  );
});

test('every channel kind is reduced or listed as unreduced', () => {
  const kinds = new Set(fixtures().map(([, fixture]) => fixture.reducer));
  expect([...kinds].filter((kind) => !(kind in reducers)).sort()).toEqual([...unreducedKinds].sort());
  expect(known.length).toBeGreaterThan(285);
});
