/** What programs print for terminals, as text with colours. Whatever else they tell a terminal is left out. */

export interface Printed {
  readonly text: string;
  readonly colour?: Colour;
  readonly isBold?: boolean;
  readonly isDim?: boolean;
}

export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'grey';

/** By the terminal's own number. Black and white are the text's own colour, whatever the theme. */
const COLOURS: readonly (Colour | undefined)[] = [
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
/** What ends a string for the terminal. */
const END = String.raw`(?:${BELL}|${ESC}\\)?`;

/** A control sequence with its parameters and its letter, a string for the terminal, or a short one. */
const SEQUENCE = new RegExp(
  String.raw`${ESC}(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^${BELL}${ESC}]*${END}|[ -/]*[0-~])`,
  'g',
);

/** Control characters, but for those that make lines and columns. */
const UNSEEN = /(?![\t\n])\p{Cc}/gu;

type Style = Omit<Printed, 'text'>;

/** Text in pieces of one style each. */
export function printed(text: string): readonly Printed[] {
  const pieces: Printed[] = [];
  let style: Style = {};
  let from = 0;
  const flat = overwritten(text);
  const put = (part: string) => {
    const seen = part.replace(UNSEEN, '');
    if (seen) pieces.push({ text: seen, ...style });
  };
  for (const found of flat.matchAll(SEQUENCE)) {
    put(flat.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === 'm') style = styled(style, found[1] ?? '');
  }
  put(flat.slice(from));
  return pieces;
}

/** The same without any colours. */
export function stripped(text: string): string {
  return printed(text)
    .map((piece) => piece.text)
    .join('');
}

/** A line that a program has written anew, as progress bars do, is what it was in the end. */
function overwritten(text: string): string {
  if (!text.includes('\r')) return text;
  const lines = text.replace(/\r+\n/g, '\n').split('\n');
  return lines.map((line) => line.split('\r').findLast((part) => part !== '') ?? '').join('\n');
}

function styled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map(Number);
  let next: Style = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, isBold: true };
    else if (code === 2) next = { ...next, isDim: true };
    else if (code === 22) next = { ...next, isBold: false, isDim: false };
    else if (code === 39) next = coloured(next, undefined);
    else if (code >= 30 && code <= 37) next = coloured(next, COLOURS[code - 30]);
    else if (code >= 90 && code <= 97) next = coloured(next, code === 90 ? 'grey' : COLOURS[code - 90]);
    else if (code === 38 || code === 48) {
      // Of the many colours only the first sixteen have names.
      const [kind, number = 0] = [codes[at + 1], codes[at + 2]];
      if (code === 38) next = coloured(next, kind === 5 && number < 16 ? COLOURS[number % 8] : undefined);
      at += kind === 5 ? 2 : 4;
    }
  }
  return next;
}

function coloured(style: Style, colour: Colour | undefined): Style {
  const { colour: _before, ...rest } = style;
  return colour ? { ...rest, colour } : rest;
}
