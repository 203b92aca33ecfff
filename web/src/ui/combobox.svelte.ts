/**
 * A combobox without markup: a text field that keeps the focus, and a list in which one option is selected. The field
 * spreads `field` and calls `handleKey`; `OptionList.svelte` renders the options.
 */

export interface ComboboxOptions<T> {
  /** Prefix of the ids. */
  readonly id: string;
  readonly options: () => readonly T[];
  /** Called for a click and for Enter. */
  readonly onchoose: (option: T) => void;
  /** Whether no option is selected at first, so that Enter means the typed text. Then arrows do not wrap around. */
  readonly isTextFirst?: boolean;
}

/** Rows by which PageUp and PageDown move. */
const PAGE_ROWS = 8;

export class Combobox<T> {
  readonly #config: ComboboxOptions<T>;
  readonly #first: number;
  #index = $state(0);
  /** The option that must be visible. The pointer does not change it, since scrolling would move another option below it. */
  revealedIndex = $state(-1);

  /** Index of the selected option; -1 is the typed text. */
  readonly selectedIndex = $derived.by(() => Math.min(this.#index, this.options.length - 1));

  constructor(config: ComboboxOptions<T>) {
    this.#config = config;
    this.#first = config.isTextFirst ? -1 : 0;
    this.#index = this.#first;
  }

  get options(): readonly T[] {
    return this.#config.options();
  }

  get selected(): T | undefined {
    return this.options[this.selectedIndex];
  }

  get listId(): string {
    return `${this.#config.id}-list`;
  }

  optionId(index: number): string {
    return `${this.#config.id}-${index}`;
  }

  /** Attributes of the field while the list is displayed. */
  get field() {
    return {
      'aria-autocomplete': 'list',
      'aria-controls': this.listId,
      'aria-activedescendant': this.selectedIndex >= 0 ? this.optionId(this.selectedIndex) : undefined,
    } as const;
  }

  /** Selects the option below the pointer. */
  select(index: number): void {
    this.#index = index;
  }

  /** Selects the first option, or the typed text. */
  reset(): void {
    this.#index = this.#first;
    this.revealedIndex = this.#first;
  }

  choose(option: T | undefined): void {
    if (option !== undefined) this.#config.onchoose(option);
  }

  /** Moves the selection. Single steps wrap around, others stop at the ends. */
  move(step: number): void {
    const { length } = this.options;
    const next = this.selectedIndex + step;
    const isWrapping = Math.abs(step) === 1 && !this.#config.isTextFirst && length > 0;
    this.#index = isWrapping ? (next + length) % length : Math.max(this.#first, Math.min(length - 1, next));
    this.revealedIndex = this.#index;
  }

  /** Arrows, PageUp and PageDown select, Enter chooses. Returns whether the key was one of them. */
  handleKey({ key, isComposing }: Pick<KeyboardEvent, 'key' | 'isComposing'>): boolean {
    if (isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS }[key];
    if (key === 'Enter') this.choose(this.selected);
    else if (step !== undefined) this.move(step);
    return key === 'Enter' || step !== undefined;
  }
}
