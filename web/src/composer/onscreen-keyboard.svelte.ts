/** Height of the on-screen keyboard where it covers the page instead of resizing it. */

import { onMount } from 'svelte';

/** Smaller differences are browser toolbars. */
const MIN_KEYBOARD_HEIGHT_PX = 80;

export function trackKeyboardHeight(): { readonly height: number } {
  let height = $state(0);
  onMount(() => {
    const visible = window.visualViewport;
    if (!visible) return;
    const measure = () => {
      // While zoomed in, the visual viewport is smaller without a keyboard.
      const covered = visible.scale > 1.01 ? 0 : innerHeight - visible.height - visible.offsetTop;
      height = covered > MIN_KEYBOARD_HEIGHT_PX ? Math.round(covered) : 0;
    };
    visible.addEventListener('resize', measure);
    visible.addEventListener('scroll', measure);
    return () => {
      visible.removeEventListener('resize', measure);
      visible.removeEventListener('scroll', measure);
    };
  });
  return {
    get height() {
      return height;
    },
  };
}
