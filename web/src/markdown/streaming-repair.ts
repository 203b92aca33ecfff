/** Ends, for the eye only, what an answer that is still coming has begun. */

/** The last piece of a text as it will probably go on: tables stand at once, words are bold before their end has come. */
export function closeUnfinished(text: string): string {
  const lines = text.split('\n');
  const last = lines.at(-1) ?? '';
  // Two dashes under a line would make a heading of it until the third word comes.
  if (lines.length > 1 && /^\s*(?:-+|=+|[*+]|\d+[.)]?)\s*$/.test(last)) return lines.slice(0, -1).join('\n');
  return completeTable(lines) ?? text + closingMarks(lastParagraph(lines));
}

function completeTable(lines: readonly string[]): string | undefined {
  const [header = '', rule, ...rows] = lines;
  if (!/^\s*\|.*\|/.test(header) || rows.length > 0) return undefined;
  if (rule !== undefined && !/^[\s|:-]*$/.test(rule)) return undefined;
  const columns = header
    .trim()
    .replace(/^\||\|$/g, '')
    .split('|').length;
  return `${header}\n${'|---'.repeat(columns)}|`;
}

function lastParagraph(lines: readonly string[]): string {
  const from = lines.findLastIndex((line) => line.trim() === '' || /^\s*(?:[-*+]\s|\d+[.)]\s|\|)/.test(line));
  const item = lines[from]?.replace(/^\s*(?:[-*+]|\d+[.)])\s/, '') ?? '';
  return [item, ...lines.slice(from + 1)].join('\n');
}

/** What would close a code span or bold words that are open at the end. */
function closingMarks(words: string): string {
  const open = words.replace(/(`+)[^`]+\1(?!`)/g, '');
  const tick = open.indexOf('`');
  if (tick >= 0) return /^`[^`\s]/.test(open.slice(tick)) ? '`' : '';
  const stars = open.match(/\*\*/g)?.length ?? 0;
  return stars % 2 === 1 && /\*\*(?:[^\s*]|[^\s*][^*]*[^\s*])$/.test(open) ? '**' : '';
}
