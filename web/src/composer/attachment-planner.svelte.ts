/** What the host would do with what is attached, asked before the message is sent. */

import type { AttachmentPlan, Client, Uri } from '../ahp/index.ts';
import { type AttachmentChip, chipAttachments, isEmbedded } from './attachment-chips.ts';

/** Milliseconds after the last change until the host is asked. */
const REQUEST_DELAY_MS = 150;

export class AttachmentPlanner {
  /** What stands in the way of the message as a whole. */
  reason: string | undefined = $state.raw();
  readonly #client: Client;
  readonly #chat: Uri;
  #requestId = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What was asked about last. */
  #lastChips: readonly AttachmentChip[] = [];

  constructor(client: Client, chat: Uri) {
    this.#client = client;
    this.#chat = chat;
  }

  /** Asks, unless something changes at once; an answer that comes too late is dropped. */
  requestPlan(chips: readonly AttachmentChip[], onPlan: (ids: readonly string[], plan: AttachmentPlan) => void): void {
    const planned = chips.filter(({ attachment }) => attachment);
    // A look at a picture takes the host a second; only other words are no reason for another one.
    if (planned.length > 0 && areSameChips(planned, this.#lastChips)) return;
    this.close();
    if (planned.length === 0) this.reason = undefined;
    // What is on its way to the host need not go there twice: it is asked about when it has arrived.
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
      // Another host has no plans, or is away: then it says what it thinks when the message comes.
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
