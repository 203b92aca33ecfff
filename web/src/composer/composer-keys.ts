/** Resolves keys of the message field to actions. Pure; the field runs the action. */

/** Label of the modifier key for Enter. */
export const MODIFIER_LABEL = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl';

export interface ComposerKey {
  readonly key: string;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

export interface ComposerKeyContext {
  /** An IME composition is active and owns all keys. */
  readonly isImeActive: boolean;
  /** Touch keyboards have no Shift+Enter. */
  readonly isTouch: boolean;
  readonly isRunning: boolean;
  /** A request of the running turn is pending. */
  readonly hasPendingRequest: boolean;
  /** Whether the completion list is open. */
  readonly isCompletionOpen: boolean;
  /** The field is empty or shows a recalled message. */
  readonly canBrowseHistory: boolean;
  /** Time of the last Escape. */
  readonly lastEscapeAt: number;
  readonly now: number;
}

export type ComposerKeyAction =
  | 'send'
  | 'steer'
  | 'stop'
  | 'armStop'
  | 'older'
  | 'newer'
  | 'nextCompletion'
  | 'previousCompletion'
  | 'acceptCompletion'
  | 'dismissCompletion';

/** Maximum time between two Escapes that stop the turn. */
export const DOUBLE_ESCAPE_MS = 1_500;

export function resolveKey(key: ComposerKey, context: ComposerKeyContext): ComposerKeyAction | undefined {
  if (context.isImeActive) return undefined;
  const isUnmodified = !(key.shiftKey || key.ctrlKey || key.metaKey || key.altKey);
  const completionAction = context.isCompletionOpen && isUnmodified ? resolveCompletionKey(key.key) : undefined;
  if (completionAction) return completionAction;
  switch (key.key) {
    case 'Enter':
      if (key.shiftKey || key.altKey) return undefined;
      if (key.ctrlKey || key.metaKey) return context.isRunning ? 'steer' : 'send';
      return context.isTouch ? undefined : 'send';
    case 'Escape':
      if (!context.isRunning || context.hasPendingRequest || !isUnmodified) return undefined;
      return context.now - context.lastEscapeAt < DOUBLE_ESCAPE_MS ? 'stop' : 'armStop';
    case 'ArrowUp':
      return isUnmodified && context.canBrowseHistory ? 'older' : undefined;
    case 'ArrowDown':
      return isUnmodified && context.canBrowseHistory ? 'newer' : undefined;
    default:
      return undefined;
  }
}

function resolveCompletionKey(key: string): ComposerKeyAction | undefined {
  switch (key) {
    case 'ArrowDown':
      return 'nextCompletion';
    case 'ArrowUp':
      return 'previousCompletion';
    case 'Tab':
    case 'Enter':
      return 'acceptCompletion';
    case 'Escape':
      return 'dismissCompletion';
    default:
      return undefined;
  }
}
