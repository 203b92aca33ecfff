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
import { removeItem, setKey, upsert } from './objects.ts';

/** Reducer for the customizations of a session. */
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
      return removeCustomization(state, action.id);
    case 'session/customizationToggled':
      return updateCustomization(state, action.id, (found) => setEnablement(found, action.enablement));
    case 'session/mcpServerStateChanged':
      return updateCustomization(state, action.id, (found) => updateMcpServer(found, action.state, action.channel));
    case 'session/mcpServerStartRequested':
      return updateCustomization(state, action.id, (found) => updateMcpServer(found, { kind: 'starting' }));
    case 'session/mcpServerStopRequested':
      return updateCustomization(state, action.id, (found) => updateMcpServer(found, { kind: 'stopped' }));
    case 'session/mcpServerBackgroundRequested':
      return updateCustomization(state, action.id, clearBlocking);
    default:
      return state;
  }
}

type AnyCustomization = Customization | ChildCustomization;

/** Kinds added by newer hosts have no known identity. */
function isKnown(customization: Customization): boolean {
  return ['plugin', 'directory', 'mcpServer'].includes(customization.type);
}

function childrenOf(container: Customization): readonly ChildCustomization[] | undefined {
  return container.type === 'mcpServer' ? undefined : container.children;
}

/** Updates the customization with this id, at the top level first, then among children. */
function updateCustomization(
  state: SessionState,
  id: string,
  change: <T extends AnyCustomization>(found: T) => T,
): SessionState {
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

function removeCustomization(state: SessionState, id: string): SessionState {
  const list = state.customizations;
  if (!list) return state;
  const left = removeItem(list, (item) => item.id === id);
  if (left !== list) return { ...state, customizations: left };
  for (const [index, container] of list.entries()) {
    const children = childrenOf(container);
    const rest = children && removeItem(children, (child) => child.id === id);
    if (children && rest && rest !== children) {
      return { ...state, customizations: list.with(index, { ...container, children: rest } as Customization) };
    }
  }
  return state;
}

/** Plugins and servers keep the enablement list; others keep only the result. */
function setEnablement<T extends AnyCustomization>(found: T, enablement: readonly Enablement[]): T {
  if (found.type === 'plugin' || found.type === 'mcpServer') {
    const provenance = enablement.length > 0 ? enablement : undefined;
    return setKey<PluginCustomization | McpServerCustomization, 'enablement'>(found, 'enablement', provenance) as T;
  }
  return { ...found, enabled: enablement[0]?.enabled ?? true };
}

function isMcpServer(found: AnyCustomization): found is McpServerCustomization {
  return found.type === 'mcpServer';
}

function updateMcpServer<T extends AnyCustomization>(found: T, state: McpServerState, channel?: string): T {
  return isMcpServer(found)
    ? (setKey<McpServerCustomization, 'channel'>({ ...found, state }, 'channel', channel) as T)
    : found;
}

function clearBlocking<T extends AnyCustomization>(found: T): T {
  if (!isMcpServer(found) || found.state.kind !== 'starting' || found.state.blocking !== true) return found;
  return { ...found, state: { ...found.state, blocking: false } };
}
