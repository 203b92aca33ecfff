/** Workspace trust: groups and summarizes the configuration of a folder. Pure. */

import type { ConfigurationItem, FolderDecision, TrustReport } from '../core/hostler-extensions.ts';
import { strings } from '../strings.ts';
import { showInvisible } from '../ui/visible.ts';

const KIND_TITLES: Readonly<Record<string, string>> = strings.trust.kinds;

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

/** Groups configuration items by kind; changed items are marked, and removed ones are included. */
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

/** Summary of a folder's trust state. */
export function trustSummary({ state, trustedBy, inheritedFrom, reason }: TrustReport): string {
  switch (state) {
    case 'trusted':
      if (trustedBy === 'parent')
        return strings.trust.summaries.inherited(showInvisible(inheritedFrom ?? strings.trust.parentFolder));
      return trustedBy === 'configuration' ? strings.trust.summaries.byHost : strings.trust.summaries.trusted;
    case 'empty':
      return strings.trust.summaries.empty;
    case 'changed':
      return strings.trust.summaries.changed;
    case 'restricted':
      return strings.trust.summaries.restricted;
    case 'refused':
      return strings.trust.summaries.refused(showInvisible(reason ?? strings.trust.summaries.unreadable));
    default:
      return strings.trust.summaries.undecided;
  }
}

/** Label of a trust decision. */
export function decisionLabel({ decision, inheritedFrom }: FolderDecision): string {
  if (inheritedFrom !== undefined) return strings.trust.inherited(showInvisible(inheritedFrom));
  if (decision === 'trustSubfolders') return strings.trust.decisions.trustedSubfolders;
  return decision === 'restrict' ? strings.trust.decisions.restricted : strings.trust.decisions.trusted;
}
