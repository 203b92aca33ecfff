/** Displayable images of messages and their object URLs. */

import { type Attachment, type Client, ROOT_CHANNEL, type Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';

/** Image types that every browser shows and that contain no scripts. */
const IMAGE_TYPES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function isDisplayableImage(contentType: string | undefined): boolean {
  return contentType !== undefined && IMAGE_TYPES.has(contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '');
}

/** An image by reference or embedded. */
export type ImageSource = { readonly contentType: string } & ({ readonly uri: Uri } | { readonly data: string });

/** The image of an attachment, if it can be displayed. */
export function imageSource(attachment: Attachment): ImageSource | undefined {
  if (!('contentType' in attachment) || !attachment.contentType || !isDisplayableImage(attachment.contentType))
    return undefined;
  if (attachment.type === 'embeddedResource') return { data: attachment.data, contentType: attachment.contentType };
  // Only images on the host are loaded, so that no third party is contacted.
  return attachment.type === 'resource' && /^(ahp-content|file):/.test(attachment.uri)
    ? { uri: attachment.uri, contentType: attachment.contentType }
    : undefined;
}

/** Loads an image and returns an object URL. The caller revokes it with `URL.revokeObjectURL`. */
export async function createImageUrl(client: Client, image: ImageSource): Promise<string> {
  if ('data' in image) return URL.createObjectURL(decodeBlob(image.data, image.contentType));
  const { uri, contentType } = image;
  const read = await client.request('resourceRead', { channel: ROOT_CHANNEL, uri, encoding: 'base64' });
  if (read.encoding !== 'base64') throw new Error(strings.chat.imageNotFound);
  // Content-addressed storage has no content type, so the attachment's type applies.
  return URL.createObjectURL(decodeBlob(read.data, contentType));
}

function decodeBlob(base64: string, type: string): Blob {
  return new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))], { type });
}
