/** Paths of the logo, a horseshoe, in a 32 × 32 view box, and the favicon made of them. */

export const HORSESHOE_PATH = 'M10 5.6C7.2 8.4 6 11.6 6 15.4a10 10 0 0 0 20 0c0-3.8-1.2-7-4-9.8';
export const HEELS_PATH = 'M7.5 3.1l5 5M24.5 3.1l-5 5';
export const NAILS_PATH = 'M6.3 12.3v.01M25.7 12.3v.01M6.7 19.1v.01M25.3 19.1v.01M9.6 23.1v.01M22.4 23.1v.01';

/** The favicon as a data URL; the badge marks waiting sessions. */
export function faviconUrl(hasBadge: boolean): string {
  const mark = '<circle cx="25" cy="7" r="8" fill="#191715"/><circle cx="25" cy="7" r="6.4" fill="#ecb43c"/>';
  const lines = `<g fill="none" stroke="#c9682c" stroke-linecap="round" stroke-linejoin="round"><path stroke-linecap="butt" stroke-width="5.4" d="${HORSESHOE_PATH}"/><path stroke-width="2.8" d="${HEELS_PATH}"/><path stroke="#fff" stroke-width="1.8" d="${NAILS_PATH}"/></g>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${lines}${hasBadge ? mark : ''}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
