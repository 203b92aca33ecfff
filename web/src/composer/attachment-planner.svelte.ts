/**
 * Requests the host's plan for attachments before the message is sent. Owns the request timer; `ComposerState` applies
 * the plan.
 */

import type { Client, Uri } from '../ahp/index.ts';
import type { AttachmentPlan } from '../core/hostler-extensions.ts';
import { type AttachmentChip, chipAttachments, isEmbedded } from './attachment-chips.ts';

/** Delay after the last change. */
const REQUEST_DELAY_MS = 150;

export class AttachmentPlanner {
  /** Why the message as a whole cannot be sent. */
  reason: string | undefined = $state.raw();
  readonly #client: Client;
  readonly #chat: Uri;
  #requestId = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The chips of the last request. */
  #lastChips: readonly AttachmentChip[] = [];

  constructor(client: Client, chat: Uri) {
    this.#client = client;
    this.#chat = chat;
  }

  /** Requests a plan after a delay; outdated responses are dropped. */
  requestPlan(chips: readonly AttachmentChip[], onPlan: (ids: readonly string[], plan: AttachmentPlan) => void): void {
    const planned = chips.filter(({ attachment }) => attachment);
    // Planning an image takes the host up to a second, so text changes do not repeat it.
    if (planned.length > 0 && areSameChips(planned, this.#lastChips)) return;
    this.close();
    if (planned.length === 0) this.reason = undefined;
    // Files that are still uploading are planned after they are stored.
    if (planned.length === 0 || planned.some((chip) => isEmbedded(chip) && !chip.isLocalOnly)) return;
    this.#lastChips = planned;
    const requestId = this.#requestId;
    this.#timer = setTimeout(async () => {
      const plan = await this.#fetchPlan(planned);
      if (requestId !== this.#requestId) return;
      if (!plan) {
        this.#lastChips = [];
        return;
      }
      this.reason = plan.ok ? undefined : plan.reason;
      onPlan(
        planned.map(({ id }) => id),
        plan,
      );
    }, REQUEST_DELAY_MS);
  }

  close(): void {
    this.#requestId += 1;
    this.#lastChips = [];
    clearTimeout(this.#timer);
  }

  async #fetchPlan(chips: readonly AttachmentChip[]): Promise<AttachmentPlan | undefined> {
    const params = { channel: this.#chat, attachments: chipAttachments(chips) };
    try {
      return await this.#client.request('hostler/planAttachments', params);
    } catch {
      // Other hosts have no plans, and a disconnected host cannot answer; it validates the message when it is sent.
      return undefined;
    }
  }
}

function areSameChips(some: readonly AttachmentChip[], others: readonly AttachmentChip[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ id, attachment }, at) => id === others[at]?.id && attachment === others[at].attachment)
  );
}
