/** The host setting for listing external sessions. */

import type { ConfigProperty, RootState } from '../ahp/index.ts';

export interface ExternalSessionsSetting {
  readonly property: ConfigProperty;
  readonly chosen: unknown;
}

/** The property and its value; undefined if the host does not have it. */
export function externalSessionsSetting(root: RootState | undefined): ExternalSessionsSetting | undefined {
  const property = root?.config?.schema.properties.showExternalSessions;
  return property && { property, chosen: root?.config?.values.showExternalSessions ?? property.default };
}
