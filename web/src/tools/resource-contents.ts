/** Contents that are named in a chat instead of being carried along, read when somebody looks at them. */

import { type Client, type ContentRef, ROOT_CHANNEL, type Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export type ResourceContents =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly contentType: string };

/** What is larger is read only when somebody insists. */
export const MAX_AUTO_LOAD_BYTES = 2_000_000;

/** How many contents are kept for whoever folds and unfolds. */
const MAX_CACHED_CONTENTS = 40;

/** By client, since another host may call something else by the same name. */
const contentsCache = new WeakMap<Client, Map<Uri, Promise<ResourceContents>>>();

/** Reads contents. Those that are named by what is in them cannot change, and are read once. */
export function loadContents(client: Client, ref: ContentRef): Promise<ResourceContents> {
  if (!ref.uri.startsWith('ahp-content:')) return fetchContents(client, ref);
  const cache = contentsCache.get(client) ?? new Map<Uri, Promise<ResourceContents>>();
  contentsCache.set(client, cache);
  const cached = cache.get(ref.uri);
  if (cached) return cached;
  const reading = fetchContents(client, ref);
  cache.set(ref.uri, reading);
  // What failed may go well the next time.
  reading.catch(() => cache.delete(ref.uri));
  const [oldest] = cache.keys();
  if (cache.size > MAX_CACHED_CONTENTS && oldest !== undefined) cache.delete(oldest);
  return reading;
}

async function fetchContents(client: Client, ref: ContentRef): Promise<ResourceContents> {
  const { data, encoding, contentType } = await client.request('resourceRead', { channel: ROOT_CHANNEL, uri: ref.uri });
  // Whoever names contents knows what they are; where they are kept, they may be nothing but bytes.
  const type = ref.contentType ?? contentType ?? 'application/octet-stream';
  if (encoding === 'utf-8') return { kind: 'text', text: data };
  return classifyBytes(decodeBase64(data), type);
}

/** Contents that came with the call itself. What cannot be read is said, not thrown. */
export function decodeEmbedded(data: string, contentType: string): ResourceContents {
  try {
    return classifyBytes(decodeBase64(data), contentType);
  } catch {
    return { kind: 'text', text: strings.output.undecodable(contentType) };
  }
}

function decodeBase64(data: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
}

/** Text is what reads as UTF-8 and has no zero in it, whatever it is called; pictures are always bytes. */
export function classifyBytes(bytes: Uint8Array, contentType: string): ResourceContents {
  if (!contentType.startsWith('image/') && !bytes.includes(0)) {
    try {
      return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
    } catch {
      // Not text, then.
    }
  }
  return { kind: 'bytes', bytes, contentType };
}
