/** A horseshoe, its opening upwards, as one hangs it over a stable's door: on a field of 32 by 32. */

export const SHOE = 'M8.6 6.5C5.9 9.6 5 13 5.4 16.6 6 22.6 10.4 27 16 27s10-4.4 10.6-10.4c.4-3.6-.5-7-3.2-10.1';
export const FEET = 'M5.9 8.2l5-3.4M26.1 8.2l-5-3.4';
export const NAILS = 'M7.9 14.6v.01M10.3 20.6v.01M24.1 14.6v.01M21.7 20.6v.01';

/** The icon of a tab; marked when something waits for somebody. */
export function favicon(isMarked: boolean): string {
  const mark = '<circle cx="25" cy="7" r="8" fill="#191715"/><circle cx="25" cy="7" r="6.4" fill="#ecb43c"/>';
  const lines = `<g fill="none" stroke="#c9682c" stroke-linecap="round" stroke-linejoin="round"><path stroke-width="5.2" d="${SHOE}"/><path stroke-width="3.4" d="${FEET}"/><path stroke="#fff" stroke-width="1.8" d="${NAILS}"/></g>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${lines}${isMarked ? mark : ''}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
