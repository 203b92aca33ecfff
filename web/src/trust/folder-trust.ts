/** Workspace trust: what a folder's own configuration would bring, in words. */

import type { ConfigurationItem, TrustedFolder, TrustReport } from '../ahp/index.ts';
import { showInvisible } from '../ui/visible.ts';

const KIND_TITLES: Readonly<Record<string, string>> = {
  hook: 'Hooks',
  mcpServer: 'MCP servers',
  environment: 'Environment variables',
  helper: 'Helper programs',
  command: 'Slash commands',
  skill: 'Skills',
  agent: 'Agents',
  plugin: 'Plugins',
  permissionRule: 'Permission rules',
  additionalDirectory: 'Additional directories',
  setting: 'Settings',
};

export type ConfigurationChange = 'added' | 'changed' | 'removed';

export interface TrustItem {
  readonly name: string;
  readonly source: string;
  readonly blocked: string | undefined;
  readonly change: ConfigurationChange | undefined;
}

export interface TrustItemGroup {
  readonly title: string;
  readonly items: readonly TrustItem[];
}

/** What the folder brings, by kind; what has changed is marked, and what is gone is among it. */
export function groupTrustItems({ configuration, difference }: TrustReport): readonly TrustItemGroup[] {
  const changes = new Map<string, ConfigurationChange>();
  for (const item of difference?.added ?? []) changes.set(itemKey(item), 'added');
  for (const item of difference?.changed ?? []) changes.set(itemKey(item), 'changed');
  const groups = new Map<string, TrustItem[]>();
  const add = (item: ConfigurationItem, change: ConfigurationChange | undefined) => {
    const title = Object.hasOwn(KIND_TITLES, item.kind) ? (KIND_TITLES[item.kind] ?? '') : showInvisible(item.kind);
    const group = groups.get(title) ?? [];
    groups.set(title, group);
    const blocked = item.blocked === undefined ? undefined : showInvisible(item.blocked);
    group.push({ name: showInvisible(item.name), source: showInvisible(item.source), blocked, change });
  };
  for (const item of configuration.items) add(item, changes.get(itemKey(item)));
  for (const item of difference?.removed ?? []) add(item, 'removed');
  return [...groups].map(([title, items]) => ({ title, items }));
}

function itemKey({ kind, name, source }: ConfigurationItem): string {
  return JSON.stringify([kind, name, source]);
}

/** Whether the folder's configuration is ignored. */
export function isRestricted(state: string): boolean {
  return state !== 'trusted' && state !== 'empty';
}

/** What holds for a folder now. */
export function trustSummary({ state, trustedBy, inheritedFrom, reason }: TrustReport): string {
  switch (state) {
    case 'trusted':
      if (trustedBy === 'parent') return `Trusted through ${showInvisible(inheritedFrom ?? 'a parent folder')}.`;
      return trustedBy === 'configuration' ? 'Trusted by the settings of the host.' : 'You trust this folder.';
    case 'empty':
      return 'This folder brings no configuration of its own.';
    case 'changed':
      return 'The configuration of this folder has changed since you trusted it. It is ignored until you decide again.';
    case 'restricted':
      return 'You do not trust this folder. Its configuration is ignored.';
    case 'refused':
      return `The configuration of this folder is ignored: ${showInvisible(reason ?? 'it cannot be read')}`;
    default:
      return 'You have not decided about this folder yet. Its configuration is ignored.';
  }
}

/** What was decided about a folder. */
export function decisionLabel({ decision, inheritedFrom }: TrustedFolder): string {
  if (inheritedFrom !== undefined) return `Trusted through ${showInvisible(inheritedFrom)}`;
  if (decision === 'trustSubfolders') return 'Trusted with its subfolders';
  return decision === 'restrict' ? 'Not trusted' : 'Trusted';
}
