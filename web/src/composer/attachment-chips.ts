/** Chips for the attachments of the message being written. Pure. */

import type { Attachment } from '../ahp/index.ts';
import type { AttachmentPlan, FilePlan } from '../core/hostler-extensions.ts';
import { formatBytes } from '../format.ts';
import { strings } from '../strings.ts';
import type { IconName } from '../ui/icons.ts';
import { isSameAttachment } from './message-content.ts';

export interface AttachmentChip {
  readonly id: string;
  readonly label: string;
  /** Undefined while the file is read, and if that fails. */
  readonly attachment?: Attachment;
  readonly contentType?: string;
  readonly size?: number;
  /** The mention in the text; removing it removes the chip. */
  readonly mention?: string;
  /** Why the page cannot read the file. */
  readonly problem?: string;
  /** The host's plan for the file. */
  readonly plan?: FilePlan;
  /** The host does not store it with the draft; only this page has it. */
  readonly isLocalOnly?: boolean;
  /** The attachment before the host stored it, in case the stored copy disappears. */
  readonly original?: Attachment;
  /** Object URL of an image preview. */
  readonly preview?: string;
}

/** Maximum size of one file and of all files of a message; a WebSocket frame is limited, too. */
export const MAX_FILE_BYTES = 32 * 1024 * 1024;
export const MAX_TOTAL_BYTES = 40 * 1024 * 1024;

/** Why a file is too large, given the other chips. */
export function sizeProblem(size: number, chips: readonly AttachmentChip[]): string | undefined {
  if (size > MAX_FILE_BYTES) return strings.attachments.fileTooLarge(size);
  const total = chips.reduce((sum, chip) => sum + (isEmbedded(chip) ? (chip.size ?? 0) : 0), size);
  return total > MAX_TOTAL_BYTES ? strings.attachments.totalTooLarge(total) : undefined;
}

export function isEmbedded({ attachment }: AttachmentChip): boolean {
  return attachment?.type === 'embeddedResource';
}

/** The attachments of the chips, in order. */
export function chipAttachments(chips: readonly AttachmentChip[]): readonly Attachment[] {
  return chips.flatMap(({ attachment }) => attachment ?? []);
}

/** Creates chips for remote attachments; known ones are retained. */
export function reconcileChips(
  chips: readonly AttachmentChip[],
  attachments: readonly Attachment[],
  newId: () => string,
): readonly AttachmentChip[] {
  const free = [...chips];
  return attachments.map((attachment) => {
    const at = free.findIndex((chip) => chip.attachment && isSameAttachment(chip.attachment, attachment));
    const [known] = at === -1 ? [] : free.splice(at, 1);
    return known ?? createChip(attachment, newId());
  });
}

export function createChip(attachment: Attachment, id: string, mention?: string): AttachmentChip {
  const metadata =
    attachment.type === 'resource'
      ? { contentType: attachment.contentType, size: attachment.sizeHint }
      : attachment.type === 'embeddedResource'
        ? { contentType: attachment.contentType, size: Math.floor((attachment.data.length * 3) / 4) }
        : {};
  return {
    id,
    label: attachment.label,
    attachment,
    ...(metadata.contentType !== undefined && { contentType: metadata.contentType }),
    ...(metadata.size !== undefined && { size: metadata.size }),
    ...(mention !== undefined && { mention }),
  };
}

/** Replaces embedded attachments with the references under which the host stored them. */
export function replaceWithStored(
  chips: readonly AttachmentChip[],
  savedChips: readonly AttachmentChip[],
  attachments: readonly Attachment[],
): readonly AttachmentChip[] {
  return chips.map((chip) => {
    const at = savedChips.findIndex(({ id }) => id === chip.id);
    const attachment = attachments[at];
    return isEmbedded(chip) && attachment?.type === 'resource'
      ? { ...chip, attachment, ...(chip.attachment && { original: chip.attachment }) }
      : chip;
  });
}

/** The host lost its stored copy, so the embedded contents are sent again. */
export function restoreOriginals(chips: readonly AttachmentChip[]): readonly AttachmentChip[] {
  return chips.map((chip) => (chip.original ? { ...chip, attachment: chip.original, isLocalOnly: true } : chip));
}

/** Removes chips whose mention was removed from the text. */
export function removeUnmentioned(chips: readonly AttachmentChip[], text: string): readonly AttachmentChip[] {
  const left = chips.filter(({ mention }) => mention === undefined || text.includes(mention));
  return left.length === chips.length ? chips : left;
}

/** Applies the host's plan to the chips of the request. */
export function applyPlan(
  chips: readonly AttachmentChip[],
  plannedIds: readonly string[],
  plan: AttachmentPlan,
): readonly AttachmentChip[] {
  return chips.map((chip) => {
    const file = plan.files[plannedIds.indexOf(chip.id)];
    return file ? { ...chip, plan: file } : chip;
  });
}

export interface ChipProblem {
  readonly message: string;
  /** Whether the problem blocks sending. */
  readonly isBlocking: boolean;
}

/** The problem of a chip, if any. */
export function chipProblem({ problem, plan }: AttachmentChip): ChipProblem | undefined {
  if (problem !== undefined) return { message: problem, isBlocking: true };
  if (plan?.decision === 'reject') return { message: plan.message ?? strings.attachments.rejected, isBlocking: true };
  const warnings = plan?.warnings ?? [];
  if (warnings.length === 0) return undefined;
  return { message: warnings.map(({ message }) => message).join('; '), isBlocking: false };
}

/** Warnings about how the host would change attachments. */
export function chipWarnings(chips: readonly AttachmentChip[]): readonly string[] {
  return chips.flatMap((chip) => {
    const problem = chipProblem(chip);
    return problem && !problem.isBlocking ? [`${chip.label}: ${endWithPeriod(problem.message)}`] : [];
  });
}

/** Why the message cannot be sent; problems of files come first. */
export function sendBlocker(chips: readonly AttachmentChip[], reason: string | undefined): string | undefined {
  const refused = chips.filter((chip) => chipProblem(chip)?.isBlocking);
  if (refused.length > 0) {
    const [first] = refused;
    return strings.attachments.problem(first?.label, first && chipProblem(first)?.message, refused.length - 1);
  }
  return reason === undefined || chips.length === 0 ? undefined : endWithPeriod(reason);
}

function endWithPeriod(sentence: string): string {
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

export function isImageChip({ contentType }: AttachmentChip): boolean {
  return contentType?.startsWith('image/') ?? false;
}

export function chipIcon(chip: AttachmentChip): IconName {
  if (isImageChip(chip)) return 'image';
  if (chip.attachment?.type === 'chat') return 'agent';
  return chip.attachment?.displayKind === 'directory' ? 'folder' : 'file';
}

/** Details beside a chip's label. */
export function chipDetails({ attachment, size, plan, problem }: AttachmentChip): string {
  if (!attachment && problem === undefined) return strings.attachments.reading;
  if (attachment?.type === 'resource' && attachment.uri.startsWith('file:')) return strings.attachments.inWorkspace;
  if (attachment?.type === 'chat') return strings.attachments.otherChat;
  const pages = plan?.pages === undefined ? [] : [strings.attachments.pages(plan.pages)];
  const dimensions = plan?.width && plan.height ? [`${plan.width} × ${plan.height}`] : [];
  return [...(size === undefined ? [] : [formatBytes(size)]), ...pages, ...dimensions].join(' · ');
}
