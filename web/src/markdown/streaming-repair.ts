/** Completes unfinished Markdown of a streaming answer for display. */

/** Completes the last chunk: table headers get a rule, open emphasis and code spans are closed. */
export function closeUnfinished(text: string): string {
  const lines = text.split('\n');
  const last = lines.at(-1) ?? '';
  // A partial list marker or rule would turn the line above into a heading.
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

/** The marks that close an open code span or bold text. */
function closingMarks(text: string): string {
  const open = text.replace(/(`+)[^`]+\1(?!`)/g, '');
  const tick = open.indexOf('`');
  if (tick >= 0) return /^`[^`\s]/.test(open.slice(tick)) ? '`' : '';
  const stars = open.match(/\*\*/g)?.length ?? 0;
  return stars % 2 === 1 && /\*\*(?:[^\s*]|[^\s*][^*]*[^\s*])$/.test(open) ? '**' : '';
}
