/** Finds the word to complete and applies a completion to the text. Offsets are UTF-16 units. Pure. */

import type { CompletionItem } from '../ahp/index.ts';
import { uriPath } from '../format.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';

export interface TextSpan {
  readonly start: number;
  readonly end: number;
}

/** The word before the cursor, if it starts with a trigger character. */
export function findTriggerWord(text: string, cursor: number, triggers: readonly string[]): TextSpan | undefined {
  const before = text.slice(0, cursor);
  const start = before.length - (/\S*$/.exec(before)?.[0].length ?? 0);
  const word = before.slice(start);
  return triggers.some((trigger) => trigger !== '' && word.startsWith(trigger)) ? { start, end: cursor } : undefined;
}

/** Inserts a completion and returns the text and the cursor, after one space. */
export function insertCompletion(
  text: string,
  cursor: number,
  item: Pick<CompletionItem, 'insertText' | 'rangeStart' | 'rangeEnd'>,
): { text: string; cursor: number } {
  const within = (offset: number) => Math.min(Math.max(0, offset), text.length);
  const start = within(item.rangeStart ?? cursor);
  const end = Math.max(start, within(item.rangeEnd ?? cursor));
  const rest = text.slice(end);
  const space = /^\s/.test(rest) ? '' : ' ';
  const head = text.slice(0, start) + item.insertText;
  return { text: head + space + rest, cursor: head.length + 1 };
}

export interface CompletionOffer {
  readonly icon: IconName;
  readonly label: string;
  /** Arguments of a command. */
  readonly hint?: string;
  readonly detail?: string;
  /** Whether accepting it adds an attachment. */
  readonly isAttachment: boolean;
}

/** How a completion is displayed. */
export function describeCompletion(
  { attachment, insertText }: CompletionItem,
  directories: readonly string[],
): CompletionOffer {
  const { label } = attachment;
  if (attachment.displayKind === 'command') {
    const { description, argumentHint } = attachment._meta ?? {};
    return {
      icon: 'command',
      label,
      ...(typeof argumentHint === 'string' && { hint: argumentHint }),
      ...(typeof description === 'string' && { detail: description }),
      // The agent does not treat a message with an attached command as a command.
      isAttachment: false,
    };
  }
  if (attachment.type === 'resource') {
    const icon = attachment.displayKind === 'directory' ? 'folder' : 'file';
    return { icon, label, detail: relativePath(uriPath(attachment.uri), directories), isAttachment: true };
  }
  if (attachment.type === 'chat')
    return { icon: 'agent', label, detail: strings.composer.chatCompletion, isAttachment: true };
  return { icon: 'info', label: label || insertText, isAttachment: true };
}

/** A path relative to the first directory that contains it. */
function relativePath(whole: string, directories: readonly string[]): string {
  const home = directories.map((uri) => `${uriPath(uri).replace(/\/$/, '')}/`).find((each) => whole.startsWith(each));
  return home === undefined ? whole : whole.slice(home.length);
}
