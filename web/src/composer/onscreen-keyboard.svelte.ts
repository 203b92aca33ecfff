/** The keyboard on a screen, where it covers the page instead of making it smaller. */

import { onMount } from 'svelte';

/** Less than this is a browser's own bar. */
const LEAST = 80;

export function keyboardHeight(): { readonly height: number } {
  let height = $state(0);
  onMount(() => {
    const visible = window.visualViewport;
    if (!visible) return;
    const look = () => {
      // Somebody who has zoomed in sees a part of the page, and no keyboard.
      const covered = visible.scale > 1.01 ? 0 : innerHeight - visible.height - visible.offsetTop;
      height = covered > LEAST ? Math.round(covered) : 0;
    };
    visible.addEventListener('resize', look);
    visible.addEventListener('scroll', look);
    return () => {
      visible.removeEventListener('resize', look);
      visible.removeEventListener('scroll', look);
    };
  });
  return {
    get height() {
      return height;
    },
  };
}
