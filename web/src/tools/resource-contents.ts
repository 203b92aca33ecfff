/** Loads resource contents that a chat references. Owns a cache of content-addressed resources. */

import { type Client, type ContentRef, ROOT_CHANNEL, type Uri } from '../ahp/index.ts';
import { strings } from '../strings.ts';

export type ResourceContents =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly contentType: string };

/** Larger resources load only on request. */
export const MAX_AUTO_LOAD_BYTES = 2_000_000;

/** Maximum number of cached contents per client. */
const MAX_CACHED_CONTENTS = 40;

/** By client, since another host can use the same URI. */
const contentsCache = new WeakMap<Client, Map<Uri, Promise<ResourceContents>>>();

/** Loads contents. Content-addressed resources are immutable and cached. */
export function loadContents(client: Client, ref: ContentRef): Promise<ResourceContents> {
  if (!ref.uri.startsWith('ahp-content:')) return fetchContents(client, ref);
  const cache = contentsCache.get(client) ?? new Map<Uri, Promise<ResourceContents>>();
  contentsCache.set(client, cache);
  const cached = cache.get(ref.uri);
  if (cached) return cached;
  const reading = fetchContents(client, ref);
  cache.set(ref.uri, reading);
  // A failed load can be retried.
  reading.catch(() => cache.delete(ref.uri));
  const [oldest] = cache.keys();
  if (cache.size > MAX_CACHED_CONTENTS && oldest !== undefined) cache.delete(oldest);
  return reading;
}

async function fetchContents(client: Client, ref: ContentRef): Promise<ResourceContents> {
  const { data, encoding, contentType } = await client.request('resourceRead', { channel: ROOT_CHANNEL, uri: ref.uri });
  // The reference knows the content type; storage may only have bytes.
  const type = ref.contentType ?? contentType ?? 'application/octet-stream';
  if (encoding === 'utf-8') return { kind: 'text', text: data };
  return classifyBytes(decodeBase64(data), type);
}

/** Decodes embedded contents. Undecodable data becomes a message instead of an error. */
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

/** Contents are text if they decode as UTF-8 without NUL, regardless of their type; images are always bytes. */
export function classifyBytes(bytes: Uint8Array, contentType: string): ResourceContents {
  if (!contentType.startsWith('image/') && !bytes.includes(0)) {
    try {
      return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
    } catch {
      // Not UTF-8.
    }
  }
  return { kind: 'bytes', bytes, contentType };
}
