/** Sentences of a host. Those about calls quote commands and paths as code, and that is all that is made of them. */

import type { StringOrMarkdown } from '../ahp/index.ts';
import { showInvisible } from '../ui/visible.ts';

export interface MessageSpan {
  readonly text: string;
  readonly isCode: boolean;
}

/** A sentence in spans of words and of code. What it quotes may try to hide something. */
export function messageSpans(message: StringOrMarkdown): readonly MessageSpan[] {
  return showInvisible(messageSource(message))
    .split(/`([^`\n]+)`/)
    .map((text, at) => ({ text, isCode: at % 2 === 1 }))
    .filter(({ text }) => text !== '');
}

/** A sentence as people say it. */
export function messageText(message: StringOrMarkdown | undefined): string {
  return message === undefined
    ? ''
    : messageSpans(message)
        .map(({ text }) => text)
        .join('');
}

/** A sentence as it was written. */
export function messageSource(message: StringOrMarkdown): string {
  return typeof message === 'string' ? message : message.markdown;
}
