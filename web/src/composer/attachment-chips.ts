/** What is attached to the message that somebody writes, one chip each. Pure. */

import type { Attachment, AttachmentPlan, FilePlan } from '../ahp/index.ts';
import { bytes, many } from '../ui/format.ts';
import type { IconName } from '../ui/icons.ts';
import { sameThing } from './message-content.ts';

export interface Chip {
  readonly id: string;
  readonly label: string;
  /** None while its file is read, and if it cannot be. */
  readonly attachment?: Attachment;
  readonly contentType?: string;
  readonly size?: number;
  /** The words in the text that stand for it: without them it is not meant any more. */
  readonly mention?: string;
  /** Why the page itself cannot bring it. */
  readonly problem?: string;
  /** What the host would do with it. */
  readonly plan?: FilePlan;
  /** The host does not keep it with the draft: only this page has it. */
  readonly stays?: boolean;
  /** What it was before the host kept it, in case that it does so no longer. */
  readonly original?: Attachment;
  /** A picture of it that the browser has. */
  readonly preview?: string;
}

/** The most that the page reads of one file, and takes along in one message: a frame of the connection has its bounds, too. */
export const FILE_MOST = 32 * 1024 * 1024;
export const TOTAL_MOST = 40 * 1024 * 1024;

const ELSEWHERE = 'put it into the workspace and name it with @ instead, so that the agent can open it';

/** Why the page does not read a file, beside what it has already. */
export function tooLarge(size: number, chips: readonly Chip[]): string | undefined {
  if (size > FILE_MOST) return `it has ${bytes(size)}, more than a browser can pass on; ${ELSEWHERE}`;
  const total = chips.reduce((sum, chip) => sum + (isEmbedded(chip) ? (chip.size ?? 0) : 0), size);
  return total > TOTAL_MOST
    ? `all files together have ${bytes(total)}, more than one message carries; ${ELSEWHERE}`
    : undefined;
}

export function isEmbedded({ attachment }: Chip): boolean {
  return attachment?.type === 'embeddedResource';
}

/** What the chips bring, in their order. */
export function attachmentsOf(chips: readonly Chip[]): readonly Attachment[] {
  return chips.flatMap(({ attachment }) => attachment ?? []);
}

/** Chips for what somebody attached elsewhere; those that are here already stay as they are. */
export function reconciled(
  chips: readonly Chip[],
  attachments: readonly Attachment[],
  newId: () => string,
): readonly Chip[] {
  const free = [...chips];
  return attachments.map((attachment) => {
    const at = free.findIndex((chip) => chip.attachment && sameThing(chip.attachment, attachment));
    const [known] = at === -1 ? [] : free.splice(at, 1);
    return known ?? chipOf(attachment, newId());
  });
}

export function chipOf(attachment: Attachment, id: string, mention?: string): Chip {
  const about =
    attachment.type === 'resource'
      ? { contentType: attachment.contentType, size: attachment.sizeHint }
      : attachment.type === 'embeddedResource'
        ? { contentType: attachment.contentType, size: Math.floor((attachment.data.length * 3) / 4) }
        : {};
  return {
    id,
    label: attachment.label,
    attachment,
    ...(about.contentType !== undefined && { contentType: about.contentType }),
    ...(about.size !== undefined && { size: about.size }),
    ...(mention !== undefined && { mention }),
  };
}

/** The host keeps what was sent along with a draft, and names it: from now on the name is enough. */
export function kept(
  chips: readonly Chip[],
  told: readonly Chip[],
  attachments: readonly Attachment[],
): readonly Chip[] {
  return chips.map((chip) => {
    const at = told.findIndex(({ id }) => id === chip.id);
    const attachment = attachments[at];
    return isEmbedded(chip) && attachment?.type === 'resource'
      ? { ...chip, attachment, ...(chip.attachment && { original: chip.attachment }) }
      : chip;
  });
}

/** The host has let go of what it kept: the page's own contents go along once more. */
export function revived(chips: readonly Chip[]): readonly Chip[] {
  return chips.map((chip) => (chip.original ? { ...chip, attachment: chip.original, stays: true } : chip));
}

/** Without those whose words were taken out of the text. */
export function meant(chips: readonly Chip[], text: string): readonly Chip[] {
  const left = chips.filter(({ mention }) => mention === undefined || text.includes(mention));
  return left.length === chips.length ? chips : left;
}

/** The host's plan, noted on the chips that it was asked about. */
export function planned(chips: readonly Chip[], asked: readonly string[], plan: AttachmentPlan): readonly Chip[] {
  return chips.map((chip) => {
    const file = plan.files[asked.indexOf(chip.id)];
    return file ? { ...chip, plan: file } : chip;
  });
}

export interface Trouble {
  readonly sentence: string;
  /** Whether the host would refuse the message. */
  readonly blocks: boolean;
}

/** What a person should know about a chip before sending. */
export function troubleOf({ problem, plan }: Chip): Trouble | undefined {
  if (problem !== undefined) return { sentence: problem, blocks: true };
  if (plan?.decision === 'refuse') return { sentence: plan.sentence ?? 'the host does not take it', blocks: true };
  const warnings = plan?.warnings ?? [];
  if (warnings.length === 0) return undefined;
  return { sentence: warnings.map(({ sentence }) => sentence).join('; '), blocks: false };
}

/** What the host would change in what is attached, in sentences. */
export function warningsOf(chips: readonly Chip[]): readonly string[] {
  return chips.flatMap((chip) => {
    const trouble = troubleOf(chip);
    return trouble && !trouble.blocks ? [`${chip.label}: ${ended(trouble.sentence)}`] : [];
  });
}

/** What stands in the way of sending, as a sentence: the reason of the whole message first. */
export function blockedBy(chips: readonly Chip[], reason: string | undefined): string | undefined {
  const refused = chips.filter((chip) => troubleOf(chip)?.blocks);
  if (refused.length > 0) {
    const [first] = refused;
    const rest = refused.length > 1 ? ` And ${many(refused.length - 1, 'other file')} cannot be sent.` : '';
    return `${first?.label} cannot be sent: ${first && troubleOf(first)?.sentence}.${rest}`;
  }
  return reason === undefined || chips.length === 0 ? undefined : ended(reason);
}

function ended(sentence: string): string {
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

export function isPicture({ contentType }: Chip): boolean {
  return contentType?.startsWith('image/') ?? false;
}

export function iconOf(chip: Chip): IconName {
  if (isPicture(chip)) return 'image';
  if (chip.attachment?.type === 'chat') return 'agent';
  return chip.attachment?.displayKind === 'directory' ? 'folder' : 'file';
}

/** What is said about a chip beside its name. */
export function aboutOf({ attachment, size, plan, problem }: Chip): string {
  if (!attachment && problem === undefined) return 'reading…';
  if (attachment?.type === 'resource' && attachment.uri.startsWith('file:')) return 'in the workspace';
  if (attachment?.type === 'chat') return 'another chat';
  const pages = plan?.pages === undefined ? [] : [many(plan.pages, 'page')];
  const extent = plan?.width && plan.height ? [`${plan.width} × ${plan.height}`] : [];
  return [...(size === undefined ? [] : [bytes(size)]), ...pages, ...extent].join(' · ');
}
