/** Formats numbers, sizes, times and URIs for display. Pure. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Created once, since lists format hundreds of dates. */
const DAYS = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const YEARS = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', year: 'numeric' });

/** Age of a timestamp, in short form. */
export function formatAge(iso: string, now: number): string {
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return '';
  const passed = Math.max(0, now - then);
  if (passed < MINUTE) return 'now';
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)}m`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)}h`;
  if (passed < 7 * DAY) return `${Math.floor(passed / DAY)}d`;
  const sameYear = new Date(then).getFullYear() === new Date(now).getFullYear();
  return (sameYear ? DAYS : YEARS).format(then);
}

/** Duration in short form. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(seconds % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Count with significant digits. */
export function formatCount(number: number): string {
  if (number < 1_000) return `${number}`;
  if (number < 1_000_000) return `${(number / 1_000).toFixed(number < 10_000 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

export function formatBytes(number: number): string {
  if (number < 1_000) return `${number} B`;
  if (number < 1_000_000) return `${Math.round(number / 1_000)} kB`;
  return `${(number / 1_000_000).toFixed(1)} MB`;
}

export function formatPlural(number: number, one: string, several = `${one}s`): string {
  return `${number} ${number === 1 ? one : several}`;
}

/** The path of a `file:` URI. */
export function uriPath(uri: string): string {
  try {
    const url = new URL(uri);
    return url.protocol === 'file:' ? decodeURIComponent(url.pathname) : uri;
  } catch {
    return uri;
  }
}

/** The last part of a path or URI. */
export function uriName(uri: string): string {
  const parts = uriPath(uri)
    .split('/')
    .filter((part) => part !== '');
  return parts.at(-1) ?? uri;
}
