/** Annotations on ranges of files. */

import type { Meta, StringOrMarkdown, TextRange, Uri } from './common.ts';

export interface AnnotationsState {
  readonly annotations: readonly Annotation[];
}

export interface AnnotationOrigin {
  readonly session: Uri;
  readonly chat?: Uri;
  readonly turnId?: string;
}

export interface Annotation {
  readonly id: string;
  readonly origin: AnnotationOrigin;
  readonly resource: Uri;
  readonly range?: TextRange;
  readonly resolved: boolean;
  readonly entries: readonly AnnotationEntry[];
  readonly _meta?: Meta;
}

export interface AnnotationEntry {
  readonly id: string;
  readonly text: StringOrMarkdown;
  readonly _meta?: Meta;
}
