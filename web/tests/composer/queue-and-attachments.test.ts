/** What waits, what is attached, what can be chosen, and what is said about all of it. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentInfo, Attachment, ChatState, ConfigState, SessionState, View } from '../../src/ahp/index.ts';
import {
  aboutOf,
  blockedBy,
  type Chip,
  chipOf,
  FILE_MOST,
  kept,
  meant,
  planned,
  reconciled,
  TOTAL_MOST,
  tooLarge,
  troubleOf,
} from '../../src/composer/attachment-chips.ts';
import { type Facts, isPaused, situationOf } from '../../src/composer/composer-status.ts';
import { choicesOf } from '../../src/composer/config-choices.ts';
import { dropped, inOrder, movedTo, placeOf } from '../../src/composer/queue-order.ts';

test('an item moves to another place and no other order changes', () => {
  expect(movedTo(['a', 'b', 'c'], 0, 2)).toEqual(['b', 'c', 'a']);
  expect(movedTo(['a', 'b', 'c'], 2, 0)).toEqual(['c', 'a', 'b']);
  const same = ['a', 'b'];
  expect([movedTo(same, 0, -1), movedTo(same, 1, 9), movedTo(same, 7, 0)]).toEqual([same, same, same]);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(), { minLength: 1 }), fc.nat(), fc.nat(), (items, one, other) => {
      const [from, to] = [one % items.length, other % items.length];
      const after = movedTo(items, from, to);
      expect(after[to]).toBe(items[from]);
      expect(after.filter((item) => item !== items[from])).toEqual(items.filter((item) => item !== items[from]));
    }),
  );
});

test('a wanted order may be older than the list', () => {
  const items = ['a', 'b', 'c'].map((id) => ({ id }));
  expect(inOrder(items, ['c', 'gone', 'a']).map(({ id }) => id)).toEqual(['c', 'a', 'b']);
});

test('a pointer means the row whose middle it has not passed', () => {
  const rows = [0, 40, 80].map((top) => ({ top, height: 40 }));
  expect([-5, 19, 20, 59, 60, 100, 500].map((y) => placeOf(y, rows))).toEqual([0, 0, 1, 1, 2, 3, 3]);
  expect([dropped(0, 0), dropped(0, 1), dropped(0, 3), dropped(2, 0), dropped(1, 2)]).toEqual([0, 0, 2, 0, 1]);
});

const embedded: Attachment = { type: 'embeddedResource', label: 'a.png', data: 'QUJD', contentType: 'image/png' };
const named: Attachment = { type: 'resource', label: 'a.png', uri: 'ahp-content:/1', contentType: 'image/png' };

test('the page reads no file that no message could carry', () => {
  expect(tooLarge(FILE_MOST, [])).toBeUndefined();
  expect(tooLarge(FILE_MOST + 1, [])).toContain('@');
  const large: Chip = { ...chipOf(embedded, '1'), size: TOTAL_MOST - 10 };
  expect(tooLarge(10, [large])).toBeUndefined();
  expect(tooLarge(11, [large])).toContain('together');
  expect(tooLarge(11, [{ ...large, attachment: named }])).toBeUndefined();
});

test('what was sent along with a draft is named from then on, where it still is', () => {
  const told = [chipOf(embedded, '1'), chipOf(named, '2')];
  const now = [chipOf(embedded, '3'), ...told];
  expect(kept(now, told, [named, named]).map(({ attachment }) => attachment?.type)).toEqual([
    'embeddedResource',
    'resource',
    'resource',
  ]);
});

test('what others attach gets chips, and known ones keep theirs', () => {
  const mine: Chip = { ...chipOf(named, 'mine'), plan: { label: 'a.png', decision: 'send' } };
  const other: Attachment = { type: 'resource', label: 'b', uri: 'file:///b', sizeHint: 5 };
  const chips = reconciled([mine], [other, named, named], () => 'new');
  expect(chips.map(({ id, size }) => [id, size])).toEqual([
    ['new', 5],
    ['mine', undefined],
    ['new', undefined],
  ]);
  expect(reconciled([mine], [], () => 'new')).toEqual([]);
});

test('a file whose name was taken out of the text is not meant any more', () => {
  const chips = [chipOf(named, '1', '@src/a.png'), chipOf(embedded, '2')];
  expect(meant(chips, 'see @src/a.png')).toBe(chips);
  expect(meant(chips, 'see @src/a.pn').map(({ id }) => id)).toEqual(['2']);
});

test('the plan is noted on the chips that it is about, and what blocks is said first', () => {
  const chips = ['1', '2', '3'].map((id) => chipOf({ ...embedded, label: `${id}.png` }, id));
  const plan = {
    ok: false,
    files: [
      { label: '1.png', decision: 'wouldSend', warnings: [{ kind: 'shrunk', sentence: 'it is made smaller' }] },
      { label: '3.png', decision: 'refuse', code: 'attachment_corrupt', sentence: 'it is damaged' },
    ],
  } as const;
  const after = planned(chips, ['1', '3'], plan);
  expect(after.map(troubleOf)).toEqual([
    { sentence: 'it is made smaller', blocks: false },
    undefined,
    { sentence: 'it is damaged', blocks: true },
  ]);
  expect(blockedBy(after, undefined)).toBe('3.png cannot be sent: it is damaged.');
  expect(blockedBy(after.slice(0, 2), undefined)).toBeUndefined();
  expect(blockedBy(after.slice(0, 2), 'too many pictures')).toBe('too many pictures.');
  expect(blockedBy([], 'too many pictures')).toBeUndefined();
  const unread: Chip = { id: '4', label: 'x', problem: 'it cannot be read' };
  expect(blockedBy([...after, unread], undefined)).toMatch(/^3\.png .* And 1 other file cannot be sent\.$/);
});

test('a chip says what is known about its file', () => {
  expect(aboutOf({ id: '1', label: 'a' })).toBe('reading…');
  expect(aboutOf({ ...chipOf(embedded, '1'), plan: { label: 'a', decision: 'send', width: 4, height: 3 } })).toBe(
    '3 B · 4 × 3',
  );
});

const config: ConfigState = {
  schema: {
    type: 'object',
    properties: {
      model: { type: 'string', title: 'Model', enum: ['old'], sessionMutable: true },
      mode: { type: 'string', title: 'Mode', enum: ['a', 'b'], sessionMutable: true },
      permissionMode: {
        type: 'string',
        title: 'Permission mode',
        default: 'default',
        enum: ['default', 'plan'],
        enumLabels: ['Ask first', 'Plan'],
        sessionMutable: true,
      },
      effort: { type: 'string', title: 'Effort', enum: ['low', 'high'] },
    },
  },
  values: { model: 'm2' },
};
const agent: AgentInfo = {
  provider: 'p',
  displayName: 'P',
  description: '',
  models: [
    { id: 'm1', provider: 'p', name: 'One' },
    { id: 'm2', provider: 'p', name: 'Two', maxContextWindow: 200_000 },
    { id: 'm3', provider: 'p', name: 'Three', policyState: 'disabled' },
  ],
};

test('one can choose what may be changed, among what the agent has now', () => {
  const choices = choicesOf(config, agent);
  expect(choices.map(({ key, label }) => [key, label])).toEqual([
    ['model', 'Two'],
    ['permissionMode', 'Ask first'],
  ]);
  expect(choices[0]?.options.map(({ value }) => value)).toEqual([null, 'm1', 'm2']);
  expect(choicesOf(config, undefined)[0]?.options.map(({ value }) => value)).toEqual([null, 'old']);
  expect(choicesOf(undefined, agent)).toEqual([]);
  // A value that nobody offers is shown as it is.
  expect(choicesOf({ ...config, values: { model: 'newer' } }, agent)[0]?.label).toBe('newer');
});

const message = { text: 'x', origin: { kind: 'user' } } as const;
const state: ChatState = { resource: 'c', title: '', status: 1, modifiedAt: '', turns: [] };
const session: SessionState = {
  provider: 'p',
  title: '',
  status: 1,
  lifecycle: 'ready',
  activeClients: [],
  chats: [],
};
const activeTurn = { id: 't', startedAt: '', message, responseParts: [] };

function facts(chat: Partial<ChatState>, view: Partial<View<ChatState>> = {}, more: Partial<Facts> = {}): Facts {
  return {
    chat: { state: { ...state, ...chat }, status: 'live', pending: 0, ...view },
    session: { state: session, status: 'live', pending: 0 },
    uri: 'c',
    text: 'hello',
    asked: false,
    touch: false,
    ...more,
  };
}

test('what Enter does depends on whether a turn runs, and the hint says it', () => {
  expect(situationOf(facts({}))).toMatchObject({ running: false, way: 'send', hint: expect.stringContaining('Enter') });
  expect(situationOf(facts({}, {}, { touch: true })).hint).toBe('');
  const running = situationOf(facts({ activeTurn }));
  expect(running).toMatchObject({ running: true, way: 'queue' });
  expect(running.hint).toContain('after this turn');
  expect(situationOf(facts({ activeTurn }, {}, { asked: true })).hint).toContain('once more');
  const request = { id: 'i', chat: 'c', kind: 'chatInput', request: { id: 'q' } } as const;
  const waiting = { state: { ...session, inputNeeded: [request] }, status: 'live', pending: 0 } as const;
  const asked = situationOf(facts({ activeTurn }, {}, { asked: true, text: '', session: waiting }));
  expect(asked).toMatchObject({ isAsked: true, hint: '' });
  expect(situationOf(facts({ activeTurn }, {}, { session: waiting, uri: 'another' })).isAsked).toBe(false);
  expect(situationOf(facts({}, {}, { text: '!ls', commandPrefix: '!' })).hint).toContain('command');
});

test('nobody writes where nobody listens, and it says why', () => {
  const origin = { kind: 'tool', chat: 'c', toolCallId: '1' } as const;
  expect(situationOf(facts({ interactivity: 'read-only', origin })).closed).toContain('sub-agent');
  expect(situationOf(facts({}, { status: 'gone', error: new Error('It was deleted.') })).closed).toBe(
    'It was deleted.',
  );
  expect(situationOf(facts({})).closed).toBeUndefined();
});

test('while the host is away one can write on, and is told what becomes of it', () => {
  expect(situationOf(facts({}, { status: 'disconnected' }))).toMatchObject({ away: true });
  expect(situationOf(facts({ activeTurn }, { status: 'disconnected', pending: 1 })).hint).toContain('what you sent');
});

test('a queue waits for a person only if the host says so', () => {
  expect(isPaused(session)).toBe(false);
  const paused = { ...session, _meta: { hostler: { queuePaused: true } } };
  expect(isPaused(paused)).toBe(true);
  const queuedMessages = [{ id: '1', message }];
  const view = { state: paused, status: 'live', pending: 0 } as const;
  expect(situationOf(facts({ queuedMessages }, {}, { session: view })).hint).toContain('1 message');
});
