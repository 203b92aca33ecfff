/** Random simulations of a client against a model host. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Client } from '../src/ahp/client.ts';
import { RejectedError, UnconfirmedError } from '../src/ahp/errors.ts';
import { reduceSession } from '../src/ahp/reducers/index.ts';
import type { Action } from '../src/ahp/types/index.ts';
import { FakeEnvironment, settled } from './support/fake-environment.ts';
import { ModelHost, SESSION } from './support/model-host.ts';

/** Actions whose order and number are visible in the state. */
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ type: fc.constant('session/titleChanged' as const), title: fc.string({ maxLength: 3 }) }),
  fc.record({ type: fc.constant('session/isReadChanged' as const), isRead: fc.boolean() }),
  fc.record({
    type: fc.constantFrom('session/workingDirectorySet' as const, 'session/workingDirectoryRemoved' as const),
    directory: fc.constantFrom('a', 'b', 'c'),
  }),
);

type Step =
  | { step: 'dispatch' | 'happen'; action: Action }
  | { step: 'read' | 'deliver'; times: number }
  | { step: 'cut'; replays: boolean; forgets: boolean }
  | { step: 'return' }
  | { step: 'rejects'; rejects: boolean };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ step: fc.constant('dispatch' as const), action }) },
  { weight: 3, arbitrary: fc.record({ step: fc.constant('happen' as const), action }) },
  {
    weight: 8,
    arbitrary: fc.record({
      step: fc.constantFrom('read' as const, 'deliver' as const),
      times: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ step: fc.constant('cut' as const), replays: fc.boolean(), forgets: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.record({ step: fc.constant('return' as const) }) },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('rejects' as const), rejects: fc.boolean() }) },
);

class Simulation {
  readonly host = new ModelHost();
  readonly world = new FakeEnvironment(() => this.host.connect());
  readonly client = new Client({ url: () => 'memory:', environment: this.world, clientId: 'c' });
  readonly session = this.client.open('session', SESSION);
  /** The outcome of each action. */
  readonly outcomes = new Map<number, 'taken' | 'rejected' | 'lost' | 'waits'>();
  #dispatched = 0;

  async run(next: Step): Promise<void> {
    switch (next.step) {
      case 'dispatch':
        this.#dispatch(next.action);
        break;
      case 'happen':
        this.host.applyHostAction(next.action);
        break;
      case 'read':
        for (let time = 0; time < next.times; time++) this.host.read();
        break;
      case 'deliver':
        for (let time = 0; time < next.times; time++) this.host.cable?.deliver();
        break;
      case 'cut':
        this.host.replays = next.replays;
        this.host.forgetsClients = next.forgets;
        this.host.cable?.cut();
        break;
      case 'return':
        if (this.client.connection.value.phase === 'waiting') this.world.nextTimer();
        break;
      case 'rejects':
        this.host.rejectsActions = next.rejects;
        break;
    }
    await settled();
  }

  /** Delivers everything until nothing is pending. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 3; ) {
      const moved = this.host.read() || (this.host.cable?.deliver() ?? false);
      await settled();
      if (moved) quiet = 0;
      else quiet += 1;
      if (!moved && this.client.connection.value.phase === 'waiting') {
        this.world.nextTimer();
        quiet = 0;
      }
    }
  }

  #dispatch(action: Action): void {
    this.#dispatched += 1;
    const number = this.#dispatched;
    this.outcomes.set(number, 'waits');
    this.session.dispatch(action).then(
      () => this.outcomes.set(number, 'taken'),
      (error) => {
        // A stopped client rejects pending actions; a settled simulation has none.
        const fate = error instanceof RejectedError ? 'rejected' : error instanceof UnconfirmedError ? 'lost' : 'waits';
        this.outcomes.set(number, fate);
      },
    );
  }
}

/** Regressions: the host forgets the client and learns it again through a lost response. */
const read: Step = { step: 'read', times: 1 };
const deliver: Step = { step: 'deliver', times: 1 };
const live: Step[] = [read, deliver, read, read, deliver];
const dispatch: Step = { step: 'dispatch', action: { type: 'session/workingDirectorySet', directory: 'a' } };
const forgotten: Step[] = [{ step: 'cut', replays: false, forgets: true }, { step: 'return' }, read, deliver, read];
const examples: [Step[]][] = [
  [[...live, dispatch, read, ...forgotten, { step: 'cut', replays: false, forgets: false }]],
  [[...live, dispatch, read, ...forgotten, deliver, { step: 'cut', replays: true, forgets: false }]],
];

test('despite lost messages the client converges with the host and every action applies once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const life = new Simulation();
      life.client.start();
      await settled();
      for (const next of steps) await life.run(next);
      await life.settle();
      const { state, pending, status } = life.session.view.value;
      expect({ status, pending, state }).toEqual({ status: 'live', pending: 0, state: life.host.state });
      for (const [number, fate] of life.outcomes) {
        const effects = life.host.effects.get(`c ${number}`) ?? 0;
        if (fate === 'lost') expect(effects).toBeLessThanOrEqual(1);
        else expect([number, fate, effects]).toEqual([number, fate, fate === 'taken' ? 1 : 0]);
      }
      expect([...life.outcomes.values()]).not.toContain('waits');
      const order = life.host.log.flatMap(({ origin }) => origin?.clientSeq ?? []);
      expect(order).toEqual(order.toSorted((one, other) => one - other));
      life.client.stop();
    }),
    { numRuns: 1000, examples },
  );
});

test('the optimistic state is the confirmed state with all pending actions applied in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { maxLength: 8, size: 'max' }),
      fc.array(action, { maxLength: 8, size: 'max' }),
      async (actions, events) => {
        const life = new Simulation();
        life.client.start();
        await life.settle();
        for (const dispatch of actions) await life.run({ step: 'dispatch', action: dispatch });
        for (const event of events) await life.run({ step: 'happen', action: event });
        // The host has read no action; the client has received all events.
        await life.run({ step: 'deliver', times: events.length });
        expect(life.session.view.value.state).toEqual(actions.reduce(reduceSession, life.host.state));
        life.client.stop();
      },
    ),
    { numRuns: 100 },
  );
});
