/** QR codes with error correction level M, up to 666 bytes. */

import { type Bitmap2D, correction, generate, type Mask, mode } from 'lean-qr';

export type QrCode = Pick<Bitmap2D, 'get' | 'size'>;

/** The largest version whose modules can be scanned at the displayed size. */
const MAX_VERSION = 20;

/** Encodes a text; undefined if it is too long. `mask` is for tests; by default the mask with the lowest penalty is chosen. */
export function encodeQrCode(text: string, mask?: Mask): QrCode | undefined {
  try {
    return generate(text, {
      modes: [mode.ascii, mode.utf8],
      minCorrectionLevel: correction.M,
      maxCorrectionLevel: correction.M,
      maxVersion: MAX_VERSION,
      mask: mask ?? null,
    });
  } catch {
    return undefined;
  }
}
