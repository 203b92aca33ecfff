/** Parses terminal output into styled text; other control sequences are dropped. Pure. */

export interface StyledText {
  readonly text: string;
  readonly color?: AnsiColor;
  readonly isBold?: boolean;
  readonly isDim?: boolean;
}

export type AnsiColor = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'grey';

/** By ANSI color number. Black and white use the text color in every theme. */
const ANSI_COLORS: readonly (AnsiColor | undefined)[] = [
  undefined,
  'red',
  'green',
  'yellow',
  'blue',
  'magenta',
  'cyan',
  undefined,
];

const ESC = '\u001b';
const BELL = '\u0007';
/** Terminator of a control string. */
const STRING_END = String.raw`(?:${BELL}|${ESC}\\)?`;

/** A CSI sequence with parameters and final byte, a control string, or a short escape. */
const ESCAPE_SEQUENCE = new RegExp(
  String.raw`${ESC}(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^${BELL}${ESC}]*${STRING_END}|[ -/]*[0-~])`,
  'g',
);

/** Control characters except tab and newline. */
const CONTROL_CHARACTERS = /(?![\t\n])\p{Cc}/gu;

type TextStyle = Omit<StyledText, 'text'>;

/** Splits text into pieces with one style. */
export function parseAnsi(text: string): readonly StyledText[] {
  const pieces: StyledText[] = [];
  let style: TextStyle = {};
  let from = 0;
  const flat = applyCarriageReturns(text);
  const addText = (part: string) => {
    const printable = part.replace(CONTROL_CHARACTERS, '');
    if (printable) pieces.push({ text: printable, ...style });
  };
  for (const found of flat.matchAll(ESCAPE_SEQUENCE)) {
    addText(flat.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === 'm') style = applySgr(style, found[1] ?? '');
  }
  addText(flat.slice(from));
  return pieces;
}

/** Removes all control sequences. */
export function stripAnsi(text: string): string {
  return parseAnsi(text)
    .map((piece) => piece.text)
    .join('');
}

/** Keeps only the final content of lines rewritten with carriage returns. */
function applyCarriageReturns(text: string): string {
  if (!text.includes('\r')) return text;
  const lines = text.replace(/\r+\n/g, '\n').split('\n');
  return lines.map((line) => line.split('\r').findLast((part) => part !== '') ?? '').join('\n');
}

function applySgr(style: TextStyle, parameters: string): TextStyle {
  const codes = parameters.split(/[;:]/).map(Number);
  let next: TextStyle = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, isBold: true };
    else if (code === 2) next = { ...next, isDim: true };
    else if (code === 22) next = { ...next, isBold: false, isDim: false };
    else if (code === 39) next = withColor(next, undefined);
    else if (code >= 30 && code <= 37) next = withColor(next, ANSI_COLORS[code - 30]);
    else if (code >= 90 && code <= 97) next = withColor(next, code === 90 ? 'grey' : ANSI_COLORS[code - 90]);
    else if (code === 38 || code === 48) {
      // Only the first 16 of the 256 colors have names.
      const [kind, number = 0] = [codes[at + 1], codes[at + 2]];
      if (code === 38) next = withColor(next, kind === 5 && number < 16 ? ANSI_COLORS[number % 8] : undefined);
      at += kind === 5 ? 2 : 4;
    }
  }
  return next;
}

function withColor(style: TextStyle, color: AnsiColor | undefined): TextStyle {
  const { color: _before, ...rest } = style;
  return color ? { ...rest, color } : rest;
}
