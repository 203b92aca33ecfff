/** Host metadata, images, announcements and tabs. */

import { describe, expect, test } from 'vitest';
import type { ChatSummary, ConfigState, ModelInfo } from '../src/ahp/index.ts';
import { visibleTabs } from '../src/chat/chat-tabs.ts';
import { imageSource, isDisplayableImage } from '../src/chat/image-attachments.ts';
import { statusAnnouncement } from '../src/chat/status-announcements.ts';
import {
  configuredValues,
  errorHeadline,
  formatDollars,
  readAbandonedTurns,
  readAgentStderr,
  readAttachmentWarnings,
  readContextUsage,
  readLimitMessage,
  readSessionUsage,
  readTurnUsage,
} from '../src/core/host-metadata.ts';

test('turns of abandoned branches are read from the session', () => {
  expect([...readAbandonedTurns({ hostler: { abandonedTurns: ['a', 1, 'b'] } })]).toEqual(['a', 'b']);
  expect(readAbandonedTurns({ hostler: { abandonedTurns: 'a' } }).size).toBe(0);
  expect(readAbandonedTurns(undefined).size).toBe(0);
});

describe('usage', () => {
  test('input tokens include cache reads and writes', () => {
    const usage = {
      inputTokens: 10,
      outputTokens: 5,
      cacheReadTokens: 100,
      _meta: { hostler: { cacheWriteTokens: 1_000, costUsd: 0.25 } },
    };
    expect(readTurnUsage(usage)).toEqual({ input: 1_110, output: 5, dollars: 0.25 });
    expect(readTurnUsage({})).toEqual({ input: undefined, output: undefined, dollars: undefined });
  });

  test('an incomplete cost is omitted', () => {
    const usage = { inputTokens: 1, cacheReadTokens: 2, cacheWriteTokens: 3, outputTokens: 4, dollars: 1.5 };
    expect(readSessionUsage({ hostler: { usage: { ...usage, unpricedTokens: 0 } } })).toEqual({
      input: 6,
      output: 4,
      dollars: 1.5,
    });
    expect(readSessionUsage({ hostler: { usage: { ...usage, unpricedTokens: 7 } } })?.dollars).toBeUndefined();
    expect(readSessionUsage(undefined)).toBeUndefined();
  });

  test('the context window comes from the host or the model', () => {
    const models = [{ id: 'm', provider: 'p', name: 'M', maxContextWindow: 200 }] satisfies ModelInfo[];
    expect(
      readContextUsage({ model: 'm', _meta: { hostler: { contextTokens: 50, contextWindow: 100 } } }, models),
    ).toEqual({
      used: 50,
      limit: 100,
    });
    expect(readContextUsage({ model: 'm', _meta: { hostler: { contextTokens: 50 } } }, models)).toEqual({
      used: 50,
      limit: 200,
    });
    expect(readContextUsage({ model: 'x', _meta: { hostler: { contextTokens: 50 } } }, models)).toEqual({
      used: 50,
      limit: undefined,
    });
    expect(readContextUsage({ model: 'm' }, models)).toBeUndefined();
  });

  test('dollar amounts have appropriate precision', () => {
    expect([0, 0.0001, 0.0701, 1.234, 12].map(formatDollars)).toEqual(['$0', '< $0.001', '$0.070', '$1.23', '$12.00']);
  });
});

test('metadata of an unexpected shape is ignored', () => {
  for (const odd of [null, 1, 'text', [], { usage: 1, limitReached: [], warnings: [1, { message: 2 }], stderr: {} }]) {
    const meta = { hostler: odd };
    expect([readLimitMessage(meta), readAttachmentWarnings(meta), readAgentStderr(meta)]).toEqual([
      undefined,
      [],
      undefined,
    ]);
    expect(readTurnUsage({ _meta: meta }).dollars).toBeUndefined();
  }
  expect(readAttachmentWarnings({ hostler: { warnings: [{ kind: 'k', message: 'Smaller now.' }] } })).toEqual([
    'Smaller now.',
  ]);
});

test('the message about a reached limit is read', () => {
  expect(readLimitMessage({ hostler: { limitReached: { message: 'Raise the limit.' } } })).toBe('Raise the limit.');
  expect(readLimitMessage({ hostler: { limitReached: null } })).toBeUndefined();
});

test('warnings of stored messages are read under their former name', () => {
  expect(readAttachmentWarnings({ hostler: { warnings: [{ kind: 'k', sentence: 'Smaller now.' }] } })).toEqual([
    'Smaller now.',
  ]);
});

test('every error type has a headline', () => {
  expect(errorHeadline('interrupted')).toContain('host');
  expect(errorHeadline('attachment_corrupt')).toContain('attachment');
  expect(errorHeadline('__proto__')).toBe('The turn failed');
});

test('configured values use their labels', () => {
  const config: ConfigState = {
    schema: {
      type: 'object',
      properties: {
        permissionMode: { type: 'string', title: 'Mode', enum: ['default', 'plan'], enumLabels: ['Ask first', 'Plan'] },
        model: { type: 'string', title: 'Model' },
      },
    },
    values: { permissionMode: 'plan', model: 'opus', effort: 'high' },
  };
  expect(configuredValues(config)).toEqual([
    { title: 'Mode', value: 'Plan' },
    { title: 'Model', value: 'opus' },
  ]);
  expect(configuredValues(config, ['model'])).toEqual([{ title: 'Model', value: 'opus' }]);
  expect(configuredValues(undefined)).toEqual([]);
});

test('only script-free images on the host are displayable', () => {
  expect([
    isDisplayableImage('image/png'),
    isDisplayableImage('IMAGE/JPEG; q=1'),
    isDisplayableImage('image/svg+xml'),
    isDisplayableImage(undefined),
  ]).toEqual([true, true, false, false]);
  const at = (uri: string) => imageSource({ type: 'resource', label: 'x', uri, contentType: 'image/png' });
  expect(at('ahp-content:/a')).toEqual({ uri: 'ahp-content:/a', contentType: 'image/png' });
  expect(at('https://a.b/c.png')).toBeUndefined();
  expect(imageSource({ type: 'simple', label: 'x' })).toBeUndefined();
});

test('status changes are announced once', () => {
  expect(statusAnnouncement('idle', 'inProgress')).toBe('The agent is working');
  expect(statusAnnouncement('inProgress', 'inputNeeded')).toBe('The agent is waiting for you');
  expect(statusAnnouncement('inputNeeded', 'inProgress')).toBeUndefined();
  expect(statusAnnouncement('inProgress', 'idle')).toBe('Answer complete');
  expect(statusAnnouncement('inProgress', 'error')).toBe('The turn failed');
  expect(statusAnnouncement('idle', 'idle')).toBeUndefined();
  expect(statusAnnouncement(undefined, 'inProgress')).toBeUndefined();
});

test('only relevant chats become tabs', () => {
  const chat = (resource: string, status = 1): ChatSummary => ({ resource, title: resource, status, modifiedAt: '' });
  const chats = [
    chat('main'),
    chat('busy', 8),
    ...Array.from({ length: 30 }, (_, at) => chat(`s${at}`)),
    { ...chat('h'), interactivity: 'hidden' as const },
  ];
  const { chats: named, left } = visibleTabs(chats, 'main', 's3');
  expect(named.map(({ resource }) => resource)).toEqual([
    'main',
    'busy',
    's3',
    's22',
    's23',
    's24',
    's25',
    's26',
    's27',
    's28',
    's29',
  ]);
  expect(left).toBe(21);
});
