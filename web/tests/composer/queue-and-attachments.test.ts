/** Queue order, attachment chips, config choices and composer status. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentInfo, Attachment, ChannelView, ChatState, ConfigState, SessionState } from '../../src/ahp/index.ts';
import {
  type AttachmentChip,
  applyPlan,
  chipDetails,
  chipProblem,
  createChip,
  MAX_FILE_BYTES,
  MAX_TOTAL_BYTES,
  reconcileChips,
  removeUnmentioned,
  replaceWithStored,
  sendBlocker,
  sizeProblem,
} from '../../src/composer/attachment-chips.ts';
import { type ComposerStatusInput, composerStatus, isQueuePaused } from '../../src/composer/composer-status.ts';
import { configChoices } from '../../src/composer/config-choices.ts';
import { applyOrder, dropIndex, indexAfterDrop, moveItem } from '../../src/composer/queue-order.ts';

test('moving an item keeps the order of the others', () => {
  expect(moveItem(['a', 'b', 'c'], 0, 2)).toEqual(['b', 'c', 'a']);
  expect(moveItem(['a', 'b', 'c'], 2, 0)).toEqual(['c', 'a', 'b']);
  const same = ['a', 'b'];
  expect([moveItem(same, 0, -1), moveItem(same, 1, 9), moveItem(same, 7, 0)]).toEqual([same, same, same]);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(), { minLength: 1 }), fc.nat(), fc.nat(), (items, one, other) => {
      const [from, to] = [one % items.length, other % items.length];
      const after = moveItem(items, from, to);
      expect(after[to]).toBe(items[from]);
      expect(after.filter((item) => item !== items[from])).toEqual(items.filter((item) => item !== items[from]));
    }),
  );
});

test('an order may refer to removed items', () => {
  const items = ['a', 'b', 'c'].map((id) => ({ id }));
  expect(applyOrder(items, ['c', 'gone', 'a']).map(({ id }) => id)).toEqual(['c', 'a', 'b']);
});

test('the drop index is the row whose middle the pointer has not passed', () => {
  const rows = [0, 40, 80].map((top) => ({ top, height: 40 }));
  expect([-5, 19, 20, 59, 60, 100, 500].map((y) => dropIndex(y, rows))).toEqual([0, 0, 1, 1, 2, 3, 3]);
  expect([
    indexAfterDrop(0, 0),
    indexAfterDrop(0, 1),
    indexAfterDrop(0, 3),
    indexAfterDrop(2, 0),
    indexAfterDrop(1, 2),
  ]).toEqual([0, 0, 2, 0, 1]);
});

const embedded: Attachment = { type: 'embeddedResource', label: 'a.png', data: 'QUJD', contentType: 'image/png' };
const named: Attachment = { type: 'resource', label: 'a.png', uri: 'ahp-content:/1', contentType: 'image/png' };

test('files beyond the message limit are not read', () => {
  expect(sizeProblem(MAX_FILE_BYTES, [])).toBeUndefined();
  expect(sizeProblem(MAX_FILE_BYTES + 1, [])).toContain('@');
  const large: AttachmentChip = { ...createChip(embedded, '1'), size: MAX_TOTAL_BYTES - 10 };
  expect(sizeProblem(10, [large])).toBeUndefined();
  expect(sizeProblem(11, [large])).toContain('together');
  expect(sizeProblem(11, [{ ...large, attachment: named }])).toBeUndefined();
});

test('stored attachments replace embedded ones in chips that still exist', () => {
  const savedChips = [createChip(embedded, '1'), createChip(named, '2')];
  const now = [createChip(embedded, '3'), ...savedChips];
  expect(replaceWithStored(now, savedChips, [named, named]).map(({ attachment }) => attachment?.type)).toEqual([
    'embeddedResource',
    'resource',
    'resource',
  ]);
});

test('remote attachments create chips, and known chips are retained', () => {
  const mine: AttachmentChip = { ...createChip(named, 'mine'), plan: { label: 'a.png', decision: 'send' } };
  const other: Attachment = { type: 'resource', label: 'b', uri: 'file:///b', sizeHint: 5 };
  const chips = reconcileChips([mine], [other, named, named], () => 'new');
  expect(chips.map(({ id, size }) => [id, size])).toEqual([
    ['new', 5],
    ['mine', undefined],
    ['new', undefined],
  ]);
  expect(reconcileChips([mine], [], () => 'new')).toEqual([]);
});

test('a chip is removed when its mention is removed', () => {
  const chips = [createChip(named, '1', '@src/a.png'), createChip(embedded, '2')];
  expect(removeUnmentioned(chips, 'see @src/a.png')).toBe(chips);
  expect(removeUnmentioned(chips, 'see @src/a.pn').map(({ id }) => id)).toEqual(['2']);
});

test('the plan is applied to its chips, and blocking problems come first', () => {
  const chips = ['1', '2', '3'].map((id) => createChip({ ...embedded, label: `${id}.png` }, id));
  const plan = {
    ok: false,
    files: [
      { label: '1.png', decision: 'wouldSend', warnings: [{ kind: 'shrunk', message: 'it is made smaller' }] },
      { label: '3.png', decision: 'reject', code: 'attachment_corrupt', message: 'it is damaged' },
    ],
  } as const;
  const after = applyPlan(chips, ['1', '3'], plan);
  expect(after.map(chipProblem)).toEqual([
    { message: 'it is made smaller', isBlocking: false },
    undefined,
    { message: 'it is damaged', isBlocking: true },
  ]);
  expect(sendBlocker(after, undefined)).toBe('3.png cannot be sent: it is damaged.');
  expect(sendBlocker(after.slice(0, 2), undefined)).toBeUndefined();
  expect(sendBlocker(after.slice(0, 2), 'too many images')).toBe('too many images.');
  expect(sendBlocker([], 'too many images')).toBeUndefined();
  const unread: AttachmentChip = { id: '4', label: 'x', problem: 'it cannot be read' };
  expect(sendBlocker([...after, unread], undefined)).toMatch(/^3\.png .* 1 other file cannot be sent either\.$/);
});

test('a chip describes its file', () => {
  expect(chipDetails({ id: '1', label: 'a' })).toBe('reading…');
  expect(
    chipDetails({ ...createChip(embedded, '1'), plan: { label: 'a', decision: 'send', width: 4, height: 3 } }),
  ).toBe('3 B · 4 × 3');
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

test('the pickers list mutable options of the current agent', () => {
  const choices = configChoices(config, agent);
  expect(choices.map(({ key, label }) => [key, label])).toEqual([
    ['model', 'Two'],
    ['permissionMode', 'Ask first'],
  ]);
  expect(choices[0]?.options.map(({ value }) => value)).toEqual([null, 'm1', 'm2']);
  expect(configChoices(config, undefined)[0]?.options.map(({ value }) => value)).toEqual([null, 'old']);
  expect(configChoices(undefined, agent)).toEqual([]);
  // A value outside the options is shown as it is.
  expect(configChoices({ ...config, values: { model: 'newer' } }, agent)[0]?.label).toBe('newer');
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

function statusInput(
  chat: Partial<ChatState>,
  view: Partial<ChannelView<ChatState>> = {},
  more: Partial<ComposerStatusInput> = {},
): ComposerStatusInput {
  return {
    chat: { state: { ...state, ...chat }, status: 'live', pending: 0, ...view },
    session: { state: session, status: 'live', pending: 0 },
    uri: 'c',
    text: 'hello',
    isStopArmed: false,
    isTouch: false,
    ...more,
  };
}

test('Enter sends or queues depending on the running turn, and the hint says which', () => {
  expect(composerStatus(statusInput({}))).toMatchObject({
    isRunning: false,
    sendMode: 'send',
    hint: expect.stringContaining('Enter'),
  });
  expect(composerStatus(statusInput({}, {}, { isTouch: true })).hint).toBe('');
  const running = composerStatus(statusInput({ activeTurn }));
  expect(running).toMatchObject({ isRunning: true, sendMode: 'queue' });
  expect(running.hint).toContain('to queue');
  expect(composerStatus(statusInput({ activeTurn }, {}, { isStopArmed: true })).hint).toContain('Escape again');
  const request = { id: 'i', chat: 'c', kind: 'chatInput', request: { id: 'q' } } as const;
  const waiting = { state: { ...session, inputNeeded: [request] }, status: 'live', pending: 0 } as const;
  const armed = composerStatus(statusInput({ activeTurn }, {}, { isStopArmed: true, text: '', session: waiting }));
  expect(armed).toMatchObject({ hasPendingRequest: true, hint: '' });
  expect(composerStatus(statusInput({ activeTurn }, {}, { session: waiting, uri: 'another' })).hasPendingRequest).toBe(
    false,
  );
  expect(composerStatus(statusInput({}, {}, { text: '!ls', commandPrefix: '!' })).hint).toContain('command');
});

test('a closed composer states the reason', () => {
  const origin = { kind: 'tool', chat: 'c', toolCallId: '1' } as const;
  expect(composerStatus(statusInput({ interactivity: 'read-only', origin })).closedReason).toContain('sub-agent');
  expect(composerStatus(statusInput({}, { status: 'gone', error: new Error('It was deleted.') })).closedReason).toBe(
    'It was deleted.',
  );
  expect(composerStatus(statusInput({})).closedReason).toBeUndefined();
});

test('while disconnected the composer stays open and explains delivery', () => {
  expect(composerStatus(statusInput({}, { status: 'disconnected' }))).toMatchObject({ isDisconnected: true });
  expect(composerStatus(statusInput({ activeTurn }, { status: 'disconnected', pending: 1 })).hint).toContain(
    'Your message is sent',
  );
});

test('the queue is paused only when the host says so', () => {
  expect(isQueuePaused(session)).toBe(false);
  const paused = { ...session, _meta: { hostler: { queuePaused: true } } };
  expect(isQueuePaused(paused)).toBe(true);
  const queuedMessages = [{ id: '1', message }];
  const view = { state: paused, status: 'live', pending: 0 } as const;
  expect(composerStatus(statusInput({ queuedMessages }, {}, { session: view })).hint).toContain('1 queued message');
});
