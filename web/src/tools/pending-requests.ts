/** Rows for the pending requests of a session, from any chat. Pure. */

import type { ChatState, SessionInputRequest, StringOrMarkdown, Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';
import { isPlanRequest, isTrustRequest } from './question-answers.ts';
import { cardElementId, toolCallIcon, toolCallTitle } from './tool-call.ts';

export interface PendingRequestRow {
  readonly id: string;
  readonly chat: Uri;
  /** Id of the card element. */
  readonly cardId: string;
  readonly icon: IconName;
  readonly title: StringOrMarkdown;
  /** Whether it is in the open chat. */
  readonly isInThisChat: boolean;
  /** Whether it belongs to no turn, so that no card shows it. */
  readonly isSessionRequest: boolean;
  readonly entry: SessionInputRequest;
}

/** The rows in session order. Calls that a client executes are skipped. */
export function pendingRequestRows(
  entries: readonly SessionInputRequest[],
  chat: Uri,
  state?: ChatState,
): readonly PendingRequestRow[] {
  const cards = new Set(
    state?.activeTurn?.responseParts.flatMap((part) => (part.kind === 'inputRequest' ? part.request.id : [])),
  );
  return entries.flatMap((entry): PendingRequestRow[] => {
    const isInThisChat = entry.chat === chat;
    const base = { id: entry.id, chat: entry.chat, isInThisChat, entry };
    switch (entry.kind) {
      case 'chatInput': {
        const { request } = entry;
        const icon = isPlanRequest(request) ? 'plan' : isTrustRequest(request) ? 'shield' : 'question';
        const isDetached = isInThisChat && state !== undefined && !cards.has(request.id);
        const question = request.questions?.[0]?.message ?? request.message ?? strings.requests.question;
        const title = isPlanRequest(request) ? strings.requests.plan : question;
        return [
          {
            ...base,
            cardId: cardElementId(entry.chat, 'request', request.id),
            icon,
            title,
            isSessionRequest: isDetached,
          },
        ];
      }
      case 'toolConfirmation':
      case 'toolAuthentication': {
        const { toolCall } = entry;
        const title = toolCallTitle(toolCall);
        const place = cardElementId(entry.chat, 'call', toolCall.toolCallId);
        return [{ ...base, cardId: place, icon: toolCallIcon(toolCall), title, isSessionRequest: false }];
      }
      default:
        return [];
    }
  });
}
