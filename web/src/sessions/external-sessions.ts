/** Which conversations from elsewhere the host lists. */

import type { ConfigProperty, RootState } from '../ahp/index.ts';

export interface ExternalSessionsSetting {
  readonly property: ConfigProperty;
  readonly chosen: unknown;
}

/** The host's property and what was chosen; a host that has no such property has no such question. */
export function externalSessionsSetting(root: RootState | undefined): ExternalSessionsSetting | undefined {
  const property = root?.config?.schema.properties.showExternalSessions;
  return property && { property, chosen: root?.config?.values.showExternalSessions ?? property.default };
}
