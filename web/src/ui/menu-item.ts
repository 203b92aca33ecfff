import type { IconName } from './icons.ts';

/** An item of a menu. */
export interface MenuItem {
  readonly label: string;
  readonly icon?: IconName;
  readonly danger?: boolean;
  /** Its shortcut. */
  readonly keys?: string;
  readonly run: () => void;
}
