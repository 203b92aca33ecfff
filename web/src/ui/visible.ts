/**
 * Makes invisible and deceptive characters visible in text that a user approves. The command line follows the same rules
 * and cases.
 */

/** Invisible characters: bidirectional controls, zero-width characters and blank look-alikes. */
const INVISIBLE_CHARACTERS =
  /(?![\t\n\r])\p{Cc}|\r(?!\n)|\u034f|\u17b4|\u17b5|[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Zero-width joiners inside emoji sequences are retained. */
const EMOJI_JOINERS = /(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]|\ufe0f)\u200d(?=\p{Extended_Pictographic})/gu;
const ZERO_WIDTH_JOINER = '\u200d';

/** Replaces each invisible character by its name, such as `⟨U+202E⟩`. */
export function showInvisible(text: string): string {
  const joined = new Set([...text.matchAll(EMOJI_JOINERS)].map(({ index }) => index));
  return text.replace(INVISIBLE_CHARACTERS, (character: string, at: number) =>
    character === ZERO_WIDTH_JOINER && joined.has(at) ? character : codePointName(character),
  );
}

function codePointName(character: string): string {
  const number = character.codePointAt(0) ?? 0;
  return `⟨U+${number.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** Long runs of blanks or empty lines that push text out of sight. */
const LONG_BLANK_RUN = /(?<=\S)[^\S\n\r]{17,}/gu;
const LONG_INDENT = /(?<=^|\n)[^\S\n\r]{61,}/gu;
const MANY_EMPTY_LINES = /(?:\r?\n[^\S\n\r]*){6,}(?=\r?\n)/gu;

/** The same for code, where blanks matter: long runs are replaced by their length. */
export function showInvisibleInCode(text: string): string {
  const counted = text
    .replace(MANY_EMPTY_LINES, (lines) => `\n⟨${lines.split('\n').length - 1} empty lines⟩`)
    .replace(LONG_INDENT, (blanks) => `⟨${blanks.length} blanks⟩`)
    .replace(LONG_BLANK_RUN, (blanks) => ` ⟨${blanks.length} blanks⟩ `);
  return showInvisible(counted);
}
