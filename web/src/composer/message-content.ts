/** Content of a message: text and attachments. Pure. */

import type { Attachment, Message } from '../ahp/index.ts';

export interface MessageContent {
  readonly text: string;
  readonly attachments: readonly Attachment[];
}

export const EMPTY_CONTENT: MessageContent = { text: '', attachments: [] };

export function messageContent(message: Pick<Message, 'text' | 'attachments'> | undefined): MessageContent {
  return message ? { text: message.text, attachments: message.attachments ?? [] } : EMPTY_CONTENT;
}

export function isEmptyContent({ text, attachments }: MessageContent): boolean {
  return text.trim() === '' && attachments.length === 0;
}

/** Converts content to a user message. */
export function toUserMessage({ text, attachments }: MessageContent): {
  text: string;
  attachments?: readonly Attachment[];
} {
  return attachments.length > 0 ? { text, attachments } : { text };
}

/** Joins two contents, text above text. */
export function joinContents(above: MessageContent, below: MessageContent): MessageContent {
  const text = [above.text, below.text].filter((each) => each.trim() !== '').join('\n\n');
  return { text, attachments: [...above.attachments, ...below.attachments] };
}

export function isSameContent(one: MessageContent, other: MessageContent): boolean {
  return (
    one.text === other.text &&
    one.attachments.length === other.attachments.length &&
    one.attachments.every((attachment, at) => {
      const counterpart = other.attachments[at];
      return counterpart !== undefined && isSameAttachment(attachment, counterpart);
    })
  );
}

/** Whether two attachments have the same source; host metadata is ignored. */
export function isSameAttachment(one: Attachment, other: Attachment): boolean {
  return one === other || (one.label === other.label && attachmentSource(one) === attachmentSource(other));
}

/** Identifies the contents of an attachment. */
function attachmentSource(attachment: Attachment): string {
  switch (attachment.type) {
    case 'embeddedResource':
      return attachment.data;
    case 'resource':
      return attachment.uri;
    case 'chat':
    case 'annotations':
      return attachment.resource;
    case 'simple':
      return attachment.modelRepresentation ?? '';
    default:
      // Newer hosts may add types.
      return JSON.stringify(attachment);
  }
}
