/** File watches. Their state never changes; events are actions. */

import type { Uri } from './common.ts';

export interface ResourceWatchState {
  readonly root: Uri;
  readonly recursive: boolean;
  readonly excludes?: { readonly items: readonly string[] };
  readonly includes?: { readonly items: readonly string[] };
}

export interface ResourceChange {
  readonly uri: Uri;
  readonly type: 'added' | 'updated' | 'deleted';
}
