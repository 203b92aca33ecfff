/** Contents that are named in a chat instead of being carried along, read when somebody looks at them. */

import { type Client, type ContentRef, ROOT_CHANNEL, type Uri } from '../ahp/index.ts';

export type Contents =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly contentType: string };

/** What is larger is read only when somebody insists. */
export const LARGE = 2_000_000;

/** How many contents are kept for whoever folds and unfolds. */
const KEPT = 40;

/** By client, since another host may call something else by the same name. */
const read = new WeakMap<Client, Map<Uri, Promise<Contents>>>();

/** Reads contents. Those that are named by what is in them cannot change, and are read once. */
export function readContents(client: Client, ref: ContentRef): Promise<Contents> {
  if (!ref.uri.startsWith('ahp-content:')) return fetched(client, ref);
  const kept = read.get(client) ?? new Map<Uri, Promise<Contents>>();
  read.set(client, kept);
  const before = kept.get(ref.uri);
  if (before) return before;
  const reading = fetched(client, ref);
  kept.set(ref.uri, reading);
  // What failed may go well the next time.
  reading.catch(() => kept.delete(ref.uri));
  const [oldest] = kept.keys();
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
  return reading;
}

async function fetched(client: Client, ref: ContentRef): Promise<Contents> {
  const { data, encoding, contentType } = await client.request('resourceRead', { channel: ROOT_CHANNEL, uri: ref.uri });
  // Whoever names contents knows what they are; where they are kept, they may be nothing but bytes.
  const type = ref.contentType ?? contentType ?? 'application/octet-stream';
  if (encoding === 'utf-8') return { kind: 'text', text: data };
  return classify(fromBase64(data), type);
}

/** Contents that came with the call itself. What cannot be read is said, not thrown. */
export function embedded(data: string, contentType: string): Contents {
  try {
    return classify(fromBase64(data), contentType);
  } catch {
    return { kind: 'text', text: `These contents (${contentType}) cannot be read.` };
  }
}

function fromBase64(data: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
}

/** Text is what reads as UTF-8 and has no zero in it, whatever it is called; pictures are always bytes. */
export function classify(bytes: Uint8Array, contentType: string): Contents {
  if (!contentType.startsWith('image/') && !bytes.includes(0)) {
    try {
      return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
    } catch {
      // Not text, then.
    }
  }
  return { kind: 'bytes', bytes, contentType };
}
