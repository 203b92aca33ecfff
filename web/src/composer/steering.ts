/** Telling the running turn something more, while something waits to be told already. */

import type { Chat } from '../ahp/index.ts';
import { joinContents, type MessageContent, messageContent } from './message-content.ts';

/**
 * A second message for the running turn would take the place of the first. So the first one is taken back, and both are told
 * together; if the agent was told already, only the second one is left to be told.
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
