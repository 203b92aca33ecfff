/** What the host would do with what is attached, asked before the message is sent. */

import type { AttachmentPlan, Client, Uri } from '../ahp/index.ts';
import { attachmentsOf, type Chip, isEmbedded } from './attachment-chips.ts';

/** Milliseconds after the last change until the host is asked. */
const SETTLES = 150;

export class Planning {
  /** What stands in the way of the message as a whole. */
  reason: string | undefined = $state.raw();
  readonly #client: Client;
  readonly #chat: Uri;
  #asked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What was asked about last. */
  #last: readonly Chip[] = [];

  constructor(client: Client, chat: Uri) {
    this.#client = client;
    this.#chat = chat;
  }

  /** Asks, unless something changes at once; an answer that comes too late is dropped. */
  ask(chips: readonly Chip[], tell: (ids: readonly string[], plan: AttachmentPlan) => void): void {
    const asked = chips.filter(({ attachment }) => attachment);
    // A look at a picture takes the host a second; only other words are no reason for another one.
    if (asked.length > 0 && sameChips(asked, this.#last)) return;
    this.close();
    if (asked.length === 0) this.reason = undefined;
    // What is on its way to the host need not go there twice: it is asked about when it has arrived.
    if (asked.length === 0 || asked.some((chip) => isEmbedded(chip) && !chip.stays)) return;
    this.#last = asked;
    const number = this.#asked;
    this.#timer = setTimeout(async () => {
      const plan = await this.#plan(asked);
      if (number !== this.#asked) return;
      if (!plan) {
        this.#last = [];
        return;
      }
      this.reason = plan.ok ? undefined : plan.reason;
      tell(
        asked.map(({ id }) => id),
        plan,
      );
    }, SETTLES);
  }

  close(): void {
    this.#asked += 1;
    this.#last = [];
    clearTimeout(this.#timer);
  }

  async #plan(chips: readonly Chip[]): Promise<AttachmentPlan | undefined> {
    const params = { channel: this.#chat, attachments: attachmentsOf(chips) };
    try {
      return await this.#client.request('hostler/planAttachments', params);
    } catch {
      // Another host has no plans, or is away: then it says what it thinks when the message comes.
      return undefined;
    }
  }
}

function sameChips(some: readonly Chip[], others: readonly Chip[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ id, attachment }, at) => id === others[at]?.id && attachment === others[at].attachment)
  );
}
