/** Reducer for session channels. */

import type { Action, ChatSummary, SessionInputRequest, SessionState } from '../types/index.ts';
import { StatusFlag } from '../types/index.ts';
import { reduceCustomizations } from './customizations.ts';
import { omitUndefined, removeItem, setFlag, setKey, upsert } from './objects.ts';
import { mergeConfig } from './root.ts';

export function reduceSession(state: SessionState, action: Action): SessionState {
  switch (action.type) {
    case 'session/ready':
      return { ...state, lifecycle: 'ready' };
    case 'session/creationFailed':
      return { ...state, lifecycle: 'failed', creationError: action.error };
    case 'session/chatAdded': {
      const { summary } = action;
      return { ...state, chats: upsert(state.chats, summary, (chat) => chat.resource === summary.resource) };
    }
    case 'session/chatRemoved': {
      const chats = removeItem(state.chats, (chat) => chat.resource === action.chat);
      if (chats === state.chats) return state;
      const next = { ...state, chats };
      return state.defaultChat === action.chat ? setKey(next, 'defaultChat', undefined) : next;
    }
    case 'session/chatUpdated':
      return updateChat(state, action.chat, action.changes);
    case 'session/chatsReordered':
      return reorderChats(state, action.chats);
    case 'session/defaultChatChanged':
      return setKey(state, 'defaultChat', action.defaultChat);
    case 'session/titleChanged':
      return { ...state, title: action.title };
    case 'session/serverToolsChanged':
      return { ...state, serverTools: action.tools };
    case 'session/activeClientSet': {
      const client = action.activeClient;
      const fits = (other: { clientId: string }) => other.clientId === client.clientId;
      return { ...state, activeClients: upsert(state.activeClients, client, fits) };
    }
    case 'session/activeClientRemoved': {
      const activeClients = removeItem(state.activeClients, (client) => client.clientId === action.clientId);
      return activeClients === state.activeClients ? state : { ...state, activeClients };
    }
    case 'session/workingDirectorySet':
      return setDirectory(state, action.directory);
    case 'session/workingDirectoryRemoved':
      return removeDirectory(state, action.directory);
    case 'session/workingDirectoryReplaced':
      return replaceDirectory(state, action.directory, action.replacement);
    case 'session/inputNeededSet': {
      const { request } = action;
      const inputNeeded = upsert(state.inputNeeded, request, (other) => other.id === request.id);
      return { ...state, inputNeeded, status: inputNeededStatus(state.status, inputNeeded) };
    }
    case 'session/inputNeededRemoved':
      return removeInputNeeded(state, action.id);
    case 'session/isReadChanged':
      return { ...state, status: setFlag(state.status, StatusFlag.isRead, action.isRead) };
    case 'session/isArchivedChanged':
      return { ...state, status: setFlag(state.status, StatusFlag.isArchived, action.isArchived) };
    case 'session/activityChanged':
      return setKey(state, 'activity', action.activity);
    case 'session/changesetsChanged':
      return setKey(state, 'changesets', action.changesets);
    case 'session/configChanged':
      return state.config ? { ...state, config: mergeConfig(state.config, action) } : state;
    case 'session/metaChanged':
      return setKey(state, '_meta', action._meta);
    default:
      return reduceCustomizations(state, action);
  }
}

function updateChat(state: SessionState, chat: string, changes: Partial<ChatSummary>): SessionState {
  const at = state.chats.findIndex((summary) => summary.resource === chat);
  const summary = state.chats[at];
  if (!summary) return state;
  const { resource: _never, ...definedChanges } = omitUndefined<Partial<ChatSummary>>(changes);
  return { ...state, chats: state.chats.with(at, { ...summary, ...definedChanges }) };
}

/** Only a full permutation is a valid order. */
function reorderChats(state: SessionState, order: readonly string[]): SessionState {
  const { chats } = state;
  if (order.length !== chats.length || new Set(order).size !== chats.length) return state;
  const lines = new Map(chats.map((summary) => [summary.resource, summary]));
  const reordered = order.flatMap((resource) => lines.get(resource) ?? []);
  const same = reordered.every((summary, at) => summary === chats[at]);
  return reordered.length !== chats.length || same ? state : { ...state, chats: reordered };
}

/** States with working directories: sessions and chats. */
interface WithWorkingDirectories {
  readonly workingDirectories?: readonly string[];
}

export function setDirectory<S extends WithWorkingDirectories>(state: S, directory: string): S {
  const list = state.workingDirectories ?? [];
  return list.includes(directory) ? state : { ...state, workingDirectories: [...list, directory] };
}

export function removeDirectory<S extends WithWorkingDirectories>(state: S, directory: string): S {
  const list = state.workingDirectories ?? [];
  const workingDirectories = removeItem(list, (other) => other === directory);
  return workingDirectories === list ? state : { ...state, workingDirectories };
}

/** The replacement takes the position and appears once. */
function replaceDirectory(state: SessionState, directory: string, replacement: string): SessionState {
  const list = state.workingDirectories ?? [];
  const at = list.indexOf(directory);
  if (at < 0) return state;
  const before = list.slice(0, at);
  const after = list.slice(at + 1);
  const workingDirectories = before.includes(replacement)
    ? [...before, ...after]
    : [...before, replacement, ...after.filter((other) => other !== replacement)];
  return { ...state, workingDirectories };
}

function removeInputNeeded(state: SessionState, id: string): SessionState {
  const list = state.inputNeeded ?? [];
  const left = removeItem(list, (request) => request.id === id);
  if (left === list) return state;
  const next = { ...state, status: inputNeededStatus(state.status, left) };
  return setKey(next, 'inputNeeded', left.length > 0 ? left : undefined);
}

/** A call that a client executes is in progress; every other request waits for a person. */
function inputNeededStatus(status: number, requests: readonly SessionInputRequest[]): number {
  return requests.some((request) => request.kind !== 'toolClientExecution')
    ? (status & ~StatusFlag.activity) | StatusFlag.inputNeeded
    : status & ~(StatusFlag.inputNeeded & ~StatusFlag.inProgress);
}
