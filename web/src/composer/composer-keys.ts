/** What a key means in the field. Pure; whoever asks carries it out and keeps the browser from doing something else. */

/** What people call the key that changes what Enter does. */
export const CONTROL = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl';

export interface Key {
  readonly key: string;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

export interface Circumstances {
  /** A word is being put together by an input method: all keys are its own. */
  readonly composing: boolean;
  /** Fingers have no Shift+Enter at hand. */
  readonly touch: boolean;
  readonly running: boolean;
  /** A request of the running turn waits for an answer. */
  readonly isAsked: boolean;
  /** Completions are shown. */
  readonly offering: boolean;
  /** Nothing was typed, or what stands there is what these keys brought. */
  readonly mayBrowse: boolean;
  /** When Escape was pressed last. */
  readonly escapedAt: number;
  readonly now: number;
}

export type Meaning =
  | 'send'
  | 'steer'
  | 'stop'
  | 'askToStop'
  | 'older'
  | 'newer'
  | 'nextOffer'
  | 'previousOffer'
  | 'takeOffer'
  | 'noOffers';

/** Milliseconds within which a second Escape means it. */
export const TWICE = 1_500;

export function meaningOf(key: Key, now: Circumstances): Meaning | undefined {
  if (now.composing) return undefined;
  const bare = !(key.shiftKey || key.ctrlKey || key.metaKey || key.altKey);
  const offered = now.offering && bare ? ofOffers(key.key) : undefined;
  if (offered) return offered;
  switch (key.key) {
    case 'Enter':
      if (key.shiftKey || key.altKey) return undefined;
      if (key.ctrlKey || key.metaKey) return now.running ? 'steer' : 'send';
      return now.touch ? undefined : 'send';
    case 'Escape':
      if (!now.running || now.isAsked || !bare) return undefined;
      return now.now - now.escapedAt < TWICE ? 'stop' : 'askToStop';
    case 'ArrowUp':
      return bare && now.mayBrowse ? 'older' : undefined;
    case 'ArrowDown':
      return bare && now.mayBrowse ? 'newer' : undefined;
    default:
      return undefined;
  }
}

function ofOffers(key: string): Meaning | undefined {
  switch (key) {
    case 'ArrowDown':
      return 'nextOffer';
    case 'ArrowUp':
      return 'previousOffer';
    case 'Tab':
    case 'Enter':
      return 'takeOffer';
    case 'Escape':
      return 'noOffers';
    default:
      return undefined;
  }
}
