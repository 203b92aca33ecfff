/** What a message is made of while somebody writes it. */

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

/** A content as a message carries it. */
export function toUserMessage({ text, attachments }: MessageContent): {
  text: string;
  attachments?: readonly Attachment[];
} {
  return attachments.length > 0 ? { text, attachments } : { text };
}

/** One text above another, with everything that is attached to them. */
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

/** Whether two attachments bring the same thing. What the host notes beside them does not count. */
export function isSameAttachment(one: Attachment, other: Attachment): boolean {
  return one === other || (one.label === other.label && attachmentSource(one) === attachmentSource(other));
}

/** Where its contents come from: the same for the same contents. */
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
      // A newer host may know more of them.
      return JSON.stringify(attachment);
  }
}
