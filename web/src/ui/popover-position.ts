/** Where a popover opens: beside its trigger and inside the window. Pure. */

/** The preferred side of the trigger, and the edge that is aligned with it. */
export type Placement = 'below-end' | 'above-start';

/** Distances from the window's edges in pixels. */
export interface PopoverPosition {
  readonly top?: number;
  readonly bottom?: number;
  readonly left?: number;
  readonly right?: number;
  readonly maxHeight: number;
}

type Box = Pick<DOMRect, 'top' | 'bottom' | 'left' | 'right'>;
interface Size {
  readonly width: number;
  readonly height: number;
}

const TRIGGER_GAP_PX = 4;
const WINDOW_MARGIN_PX = 8;

/** Opens on the preferred side, or on the other one if only that has room. */
export function placePopover(trigger: Box, panel: Size, viewport: Size, placement: Placement): PopoverPosition {
  const roomBelow = viewport.height - trigger.bottom - TRIGGER_GAP_PX - WINDOW_MARGIN_PX;
  const roomAbove = trigger.top - TRIGGER_GAP_PX - WINDOW_MARGIN_PX;
  const isBelowPreferred = placement === 'below-end';
  const [preferred, other] = isBelowPreferred ? [roomBelow, roomAbove] : [roomAbove, roomBelow];
  const isBelow = isBelowPreferred === (panel.height <= preferred || preferred >= other);
  const vertical = isBelow
    ? { top: trigger.bottom + TRIGGER_GAP_PX, maxHeight: roomBelow }
    : { bottom: viewport.height - trigger.top + TRIGGER_GAP_PX, maxHeight: roomAbove };
  const within = (distance: number) =>
    Math.max(WINDOW_MARGIN_PX, Math.min(distance, viewport.width - panel.width - WINDOW_MARGIN_PX));
  return placement === 'below-end'
    ? { ...vertical, right: within(viewport.width - trigger.right) }
    : { ...vertical, left: within(trigger.left) };
}
