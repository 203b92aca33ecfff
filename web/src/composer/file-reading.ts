/** Files that a browser hands over: from its picker, a drop, the clipboard or the camera. */

import { type Chip, isPicture, tooLarge } from './attachment-chips.ts';

/** A chip for a file at once, and as it is when the file was read. */
export function read(file: File, chips: readonly Chip[], id: string): { chip: Chip; done: Promise<Chip> } {
  const contentType = file.type || 'application/octet-stream';
  const label = file.name || 'file';
  const about: Chip = { id, label, contentType, size: file.size };
  const problem = tooLarge(file.size, chips);
  if (problem !== undefined) {
    const chip = { ...about, problem };
    return { chip, done: Promise.resolve(chip) };
  }
  const chip = isPicture(about) ? { ...about, preview: URL.createObjectURL(file) } : about;
  const done = base64(file).then(
    (data): Chip => ({ ...chip, attachment: { type: 'embeddedResource', label, contentType, data, ...kindOf(chip) } }),
    (): Chip => ({ ...chip, problem: 'the browser cannot read it; a folder has to be attached file by file' }),
  );
  return { chip, done };
}

function kindOf(chip: Chip): { displayKind: string } {
  return { displayKind: isPicture(chip) ? 'image' : 'document' };
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      const address = String(reader.result);
      resolve(address.slice(address.indexOf(',') + 1));
    };
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
}

/** The files of a drop or of what was pasted. */
export function filesOf(data: DataTransfer | null): readonly File[] {
  return [...(data?.files ?? [])];
}

/** Whether something that is dragged over the page brings files. */
export function bringsFiles(data: DataTransfer | null): boolean {
  return data?.types.includes('Files') ?? false;
}
