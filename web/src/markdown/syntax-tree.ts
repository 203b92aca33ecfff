/** The Markdown syntax tree. It cannot contain HTML. */

export type MarkdownInline =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'code'; readonly text: string }
  | { readonly type: 'strong' | 'em' | 'del'; readonly children: readonly MarkdownInline[] }
  | { readonly type: 'link'; readonly href: string; readonly children: readonly MarkdownInline[] }
  | { readonly type: 'break' };

export type ColumnAlignment = 'left' | 'center' | 'right' | undefined;

export interface MarkdownListItem {
  /** For tasks: whether it is done. */
  readonly checked?: boolean;
  readonly children: readonly MarkdownBlock[];
}

export type MarkdownBlock =
  /** `level` is the visual size, `rank` the accessible level without gaps. */
  | {
      readonly type: 'heading';
      readonly level: number;
      readonly rank?: number;
      readonly children: readonly MarkdownInline[];
    }
  | { readonly type: 'paragraph'; readonly children: readonly MarkdownInline[] }
  /** The text of a tight list item: a paragraph without margins. */
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
  /** Shown as source: it is HTML or too complex to parse. */
  | { readonly type: 'plain'; readonly text: string };
