/** What Markdown becomes before it is shown: a small tree that cannot hold markup. */

export type MarkdownInline =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'code'; readonly text: string }
  | { readonly type: 'strong' | 'em' | 'del'; readonly children: readonly MarkdownInline[] }
  | { readonly type: 'link'; readonly href: string; readonly children: readonly MarkdownInline[] }
  | { readonly type: 'break' };

export type ColumnAlignment = 'left' | 'center' | 'right' | undefined;

export interface MarkdownListItem {
  /** Of a task: whether it is done. */
  readonly checked?: boolean;
  readonly children: readonly MarkdownBlock[];
}

export type MarkdownBlock =
  /** `level` is how it looks, `rank` what it is told as: never more than one below the heading before it. */
  | {
      readonly type: 'heading';
      readonly level: number;
      readonly rank?: number;
      readonly children: readonly MarkdownInline[];
    }
  | { readonly type: 'paragraph'; readonly children: readonly MarkdownInline[] }
  /** The words of a tight list's item: a paragraph without room around it. */
  | { readonly type: 'line'; readonly children: readonly MarkdownInline[] }
  | { readonly type: 'list'; readonly start: number | undefined; readonly items: readonly MarkdownListItem[] }
  | { readonly type: 'quote'; readonly children: readonly MarkdownBlock[] }
  | { readonly type: 'code'; readonly text: string; readonly language: string; readonly open: boolean }
  | {
      readonly type: 'table';
      readonly align: readonly ColumnAlignment[];
      readonly header: readonly (readonly MarkdownInline[])[];
      readonly rows: readonly (readonly (readonly MarkdownInline[])[])[];
    }
  | { readonly type: 'rule' }
  /** Shown as it was written: it is markup, or it would take too long to read. */
  | { readonly type: 'plain'; readonly text: string };
