/** Pictures that the host keeps, as addresses of this page. */

import { type Attachment, type Client, ROOT_CHANNEL, type Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';

/** Those that every browser shows and that hold no scripts. */
const IMAGE_TYPES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function isDisplayableImage(contentType: string | undefined): boolean {
  return contentType !== undefined && IMAGE_TYPES.has(contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '');
}

/** A picture that is named, or carried along. */
export type ImageSource = { readonly contentType: string } & ({ readonly uri: Uri } | { readonly data: string });

/** Where the contents of an attachment are, if it is a picture that can be shown. */
export function imageSource(attachment: Attachment): ImageSource | undefined {
  if (!('contentType' in attachment) || !attachment.contentType || !isDisplayableImage(attachment.contentType))
    return undefined;
  if (attachment.type === 'embeddedResource') return { data: attachment.data, contentType: attachment.contentType };
  // Only what the host keeps: nothing is asked of another place.
  return attachment.type === 'resource' && /^(ahp-content|file):/.test(attachment.uri)
    ? { uri: attachment.uri, contentType: attachment.contentType }
    : undefined;
}

/** Reads a picture. Whoever gets the address takes it back by `URL.revokeObjectURL`. */
export async function createImageUrl(client: Client, image: ImageSource): Promise<string> {
  if ('data' in image) return URL.createObjectURL(decodeBlob(image.data, image.contentType));
  const { uri, contentType } = image;
  const read = await client.request('resourceRead', { channel: ROOT_CHANNEL, uri, encoding: 'base64' });
  if (read.encoding !== 'base64') throw new Error(strings.chat.imageNotFound);
  // What the host keeps by its contents has no type of its own there: whoever names it says what it is.
  return URL.createObjectURL(decodeBlob(read.data, contentType));
}

function decodeBlob(base64: string, type: string): Blob {
  return new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))], { type });
}
