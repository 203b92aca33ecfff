import type { IconName } from './icons.ts';

/** An item of a menu. */
export interface MenuItem {
  readonly label: string;
  /** A second line. */
  readonly detail?: string;
  readonly icon?: IconName;
  readonly danger?: boolean;
  /** Its shortcut. */
  readonly keys?: string;
  /** Whether it is the chosen one of several; undefined for a command. */
  readonly isChecked?: boolean;
  readonly run: () => void;
}
