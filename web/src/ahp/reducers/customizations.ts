import type {
  Action,
  ChildCustomization,
  Customization,
  Enablement,
  McpServerCustomization,
  McpServerState,
  PluginCustomization,
  SessionState,
} from '../types/index.ts';
import { put, removed, upsert } from './objects.ts';

/** What a session is customized with. */
export function reduceCustomizations(state: SessionState, action: Action): SessionState {
  switch (action.type) {
    case 'session/customizationsChanged':
      return { ...state, customizations: action.customizations };
    case 'session/customizationUpdated': {
      const { customization } = action;
      if (!isKnown(customization)) return state;
      const fits = (other: Customization) => other.id === customization.id;
      return { ...state, customizations: upsert(state.customizations, customization, fits) };
    }
    case 'session/customizationRemoved':
      return removedFrom(state, action.id);
    case 'session/customizationToggled':
      return changed(state, action.id, (found) => toggled(found, action.enablement));
    case 'session/mcpServerStateChanged':
      return changed(state, action.id, (found) => server(found, action.state, action.channel));
    case 'session/mcpServerStartRequested':
      return changed(state, action.id, (found) => server(found, { kind: 'starting' }));
    case 'session/mcpServerStopRequested':
      return changed(state, action.id, (found) => server(found, { kind: 'stopped' }));
    case 'session/mcpServerBackgroundRequested':
      return changed(state, action.id, unblocked);
    default:
      return state;
  }
}

type Any = Customization | ChildCustomization;

/** Kinds that a newer host may add have no identity here. */
function isKnown(customization: Customization): boolean {
  return ['plugin', 'directory', 'mcpServer'].includes(customization.type);
}

function childrenOf(container: Customization): readonly ChildCustomization[] | undefined {
  return container.type === 'mcpServer' ? undefined : container.children;
}

/** Changes the one with this id, wherever it is: at the top first, then among children. */
function changed(state: SessionState, id: string, change: <T extends Any>(found: T) => T): SessionState {
  const list = state.customizations;
  if (!list) return state;
  const at = list.findIndex((item) => item.id === id);
  const top = list[at];
  if (top) {
    const next = change(top);
    return next === top ? state : { ...state, customizations: list.with(at, next) };
  }
  for (const [index, container] of list.entries()) {
    const children = childrenOf(container);
    const place = children?.findIndex((child) => child.id === id) ?? -1;
    const child = children?.[place];
    if (!children || !child) continue;
    const next = change(child);
    if (next === child) return state;
    return {
      ...state,
      customizations: list.with(index, { ...container, children: children.with(place, next) } as Customization),
    };
  }
  return state;
}

function removedFrom(state: SessionState, id: string): SessionState {
  const list = state.customizations;
  if (!list) return state;
  const left = removed(list, (item) => item.id === id);
  if (left !== list) return { ...state, customizations: left };
  for (const [index, container] of list.entries()) {
    const children = childrenOf(container);
    const rest = children && removed(children, (child) => child.id === id);
    if (children && rest && rest !== children) {
      return { ...state, customizations: list.with(index, { ...container, children: rest } as Customization) };
    }
  }
  return state;
}

/** Plugins and servers keep where it was decided; everything else keeps the decision. */
function toggled<T extends Any>(found: T, enablement: readonly Enablement[]): T {
  if (found.type === 'plugin' || found.type === 'mcpServer') {
    const provenance = enablement.length > 0 ? enablement : undefined;
    return put<PluginCustomization | McpServerCustomization, 'enablement'>(found, 'enablement', provenance) as T;
  }
  return { ...found, enabled: enablement[0]?.enabled ?? true };
}

function isServer(found: Any): found is McpServerCustomization {
  return found.type === 'mcpServer';
}

function server<T extends Any>(found: T, state: McpServerState, channel?: string): T {
  return isServer(found)
    ? (put<McpServerCustomization, 'channel'>({ ...found, state }, 'channel', channel) as T)
    : found;
}

function unblocked<T extends Any>(found: T): T {
  if (!isServer(found) || found.state.kind !== 'starting' || found.state.blocking !== true) return found;
  return { ...found, state: { ...found.state, blocking: false } };
}
