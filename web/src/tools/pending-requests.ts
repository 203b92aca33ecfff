/** What waits for a person anywhere in a session, for whoever looks elsewhere. */

import type { ChatState, SessionInputRequest, StringOrMarkdown, Uri } from '../ahp/index.ts';
import type { IconName } from '../ui/icons.ts';
import { isPlan, isTrust } from './question-answers.ts';
import { iconOf, nameOf, placeOf } from './tool-call.ts';

export interface Waiting {
  readonly id: string;
  readonly chat: Uri;
  /** The name of the card that shows it. */
  readonly place: string;
  readonly icon: IconName;
  readonly sentence: StringOrMarkdown;
  /** It is in the chat that is open. */
  readonly isHere: boolean;
  /** It belongs to no turn, so that no card shows it. */
  readonly isDetached: boolean;
  readonly entry: SessionInputRequest;
}

/** In the order of the session. What a client has to carry out waits for nobody. */
export function waitingIn(entries: readonly SessionInputRequest[], chat: Uri, state?: ChatState): readonly Waiting[] {
  const cards = new Set(
    state?.activeTurn?.responseParts.flatMap((part) => (part.kind === 'inputRequest' ? part.request.id : [])),
  );
  return entries.flatMap((entry): Waiting[] => {
    const isHere = entry.chat === chat;
    const base = { id: entry.id, chat: entry.chat, isHere, entry };
    switch (entry.kind) {
      case 'chatInput': {
        const { request } = entry;
        const icon = isPlan(request) ? 'plan' : isTrust(request) ? 'shield' : 'question';
        const isDetached = isHere && state !== undefined && !cards.has(request.id);
        const question = request.questions?.[0]?.message ?? request.message ?? 'A question';
        const sentence = isPlan(request) ? 'A plan is to be decided about' : question;
        return [{ ...base, place: placeOf(entry.chat, 'request', request.id), icon, sentence, isDetached }];
      }
      case 'toolConfirmation':
      case 'toolAuthentication': {
        const { toolCall } = entry;
        const sentence = nameOf(toolCall);
        const place = placeOf(entry.chat, 'call', toolCall.toolCallId);
        return [{ ...base, place, icon: iconOf(toolCall), sentence, isDetached: false }];
      }
      default:
        return [];
    }
  });
}
