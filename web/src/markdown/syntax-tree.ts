/** What Markdown becomes before it is shown: a small tree that cannot hold markup. */

export type Inline =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'code'; readonly text: string }
  | { readonly type: 'strong' | 'em' | 'del'; readonly children: readonly Inline[] }
  | { readonly type: 'link'; readonly href: string; readonly children: readonly Inline[] }
  | { readonly type: 'break' };

export type Align = 'left' | 'center' | 'right' | undefined;

export interface Item {
  /** Of a task: whether it is done. */
  readonly checked?: boolean;
  readonly children: readonly Block[];
}

export type Block =
  /** `level` is how it looks, `rank` what it is told as: never more than one below the heading before it. */
  | { readonly type: 'heading'; readonly level: number; readonly rank?: number; readonly children: readonly Inline[] }
  | { readonly type: 'paragraph'; readonly children: readonly Inline[] }
  /** The words of a tight list's item: a paragraph without room around it. */
  | { readonly type: 'line'; readonly children: readonly Inline[] }
  | { readonly type: 'list'; readonly start: number | undefined; readonly items: readonly Item[] }
  | { readonly type: 'quote'; readonly children: readonly Block[] }
  | { readonly type: 'code'; readonly text: string; readonly language: string; readonly open: boolean }
  | {
      readonly type: 'table';
      readonly align: readonly Align[];
      readonly header: readonly (readonly Inline[])[];
      readonly rows: readonly (readonly (readonly Inline[])[])[];
    }
  | { readonly type: 'rule' }
  /** Shown as it was written: it is markup, or it would take too long to read. */
  | { readonly type: 'plain'; readonly text: string };
