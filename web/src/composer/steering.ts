/** Merges steering messages for the running turn. */

import type { Chat } from '../ahp/index.ts';
import { joinContents, type MessageContent, messageContent } from './message-content.ts';

/**
 * A second steering message would replace the first, so the first one is withdrawn and both are sent together. If the
 * first was already delivered, only the second one is sent.
 */
export async function mergeWithSteering(
  chat: Pick<Chat, 'view' | 'removePendingMessage'>,
  content: MessageContent,
): Promise<MessageContent> {
  const waiting = chat.view.value.state?.steeringMessage;
  if (!waiting) return content;
  try {
    await chat.removePendingMessage('steering', waiting.id);
  } catch {
    return content;
  }
  return joinContents(messageContent(waiting.message), content);
}
