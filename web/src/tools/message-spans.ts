/** Splits host messages into text and code spans. No other Markdown is interpreted. Pure. */

import type { StringOrMarkdown } from '../ahp/index.ts';
import { showInvisible } from '../ui/visible.ts';

export interface MessageSpan {
  readonly text: string;
  readonly isCode: boolean;
}

/** The spans of a message, with invisible characters named, since quoted text can be deceptive. */
export function messageSpans(message: StringOrMarkdown): readonly MessageSpan[] {
  return showInvisible(messageSource(message))
    .split(/`([^`\n]+)`/)
    .map((text, at) => ({ text, isCode: at % 2 === 1 }))
    .filter(({ text }) => text !== '');
}

/** A message as plain text. */
export function messageText(message: StringOrMarkdown | undefined): string {
  return message === undefined
    ? ''
    : messageSpans(message)
        .map(({ text }) => text)
        .join('');
}

/** A message as its Markdown source. */
export function messageSource(message: StringOrMarkdown): string {
  return typeof message === 'string' ? message : message.markdown;
}
