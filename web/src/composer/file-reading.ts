/** Reads files from the file picker, a drop, the clipboard or the camera into chips. */

import { strings } from '../strings.ts';
import { type AttachmentChip, isImageChip, sizeProblem } from './attachment-chips.ts';

/** A chip at once, and the chip after its file was read. */
export function readFile(
  file: File,
  chips: readonly AttachmentChip[],
  id: string,
): { chip: AttachmentChip; done: Promise<AttachmentChip> } {
  const contentType = file.type || 'application/octet-stream';
  const label = file.name || 'file';
  const metadata: AttachmentChip = { id, label, contentType, size: file.size };
  const problem = sizeProblem(file.size, chips);
  if (problem !== undefined) {
    const chip = { ...metadata, problem };
    return { chip, done: Promise.resolve(chip) };
  }
  const chip = isImageChip(metadata) ? { ...metadata, preview: URL.createObjectURL(file) } : metadata;
  const done = readBase64(file).then(
    (data): AttachmentChip => ({
      ...chip,
      attachment: { type: 'embeddedResource', label, contentType, data, ...displayKind(chip) },
    }),
    (): AttachmentChip => ({
      ...chip,
      problem: strings.attachments.unreadable,
    }),
  );
  return { chip, done };
}

function displayKind(chip: AttachmentChip): { displayKind: string } {
  return { displayKind: isImageChip(chip) ? 'image' : 'document' };
}

function readBase64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      const dataUrl = String(reader.result);
      resolve(dataUrl.slice(dataUrl.indexOf(',') + 1));
    };
    reader.onerror = () => reject(reader.error ?? new Error(strings.attachments.readFailed));
    reader.readAsDataURL(file);
  });
}

/** The files of a drop or paste. */
export function transferredFiles(data: DataTransfer | null): readonly File[] {
  return [...(data?.files ?? [])];
}

/** Whether a drag contains files. */
export function hasFiles(data: DataTransfer | null): boolean {
  return data?.types.includes('Files') ?? false;
}
