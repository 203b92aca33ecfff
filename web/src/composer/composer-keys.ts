/** What a key means in the field. Pure; whoever asks carries it out and keeps the browser from doing something else. */

/** What people call the key that changes what Enter does. */
export const MODIFIER_LABEL = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl';

export interface ComposerKey {
  readonly key: string;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

export interface ComposerKeyContext {
  /** A word is being put together by an input method: all keys are its own. */
  readonly isImeActive: boolean;
  /** Fingers have no Shift+Enter at hand. */
  readonly isTouch: boolean;
  readonly isRunning: boolean;
  /** A request of the running turn waits for an answer. */
  readonly hasPendingRequest: boolean;
  /** Completions are shown. */
  readonly isCompletionOpen: boolean;
  /** Nothing was typed, or what stands there is what these keys brought. */
  readonly canBrowseHistory: boolean;
  /** When Escape was pressed last. */
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

/** Milliseconds within which a second Escape means it. */
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
