/** Reducer for changeset channels. */

import type { Action, ChangesetOperation, ChangesetState, ErrorInfo } from '../types/index.ts';
import { removeItem, setKey, upsert } from './objects.ts';

export function reduceChangeset(state: ChangesetState, action: Action): ChangesetState {
  switch (action.type) {
    case 'changeset/statusChanged':
      return withStatus(state, action.status, action.error);
    case 'changeset/fileSet': {
      const { file } = action;
      return { ...state, files: upsert(state.files, file, (other) => other.id === file.id) };
    }
    case 'changeset/fileRemoved': {
      const files = removeItem(state.files, (file) => file.id === action.fileId);
      return files === state.files ? state : { ...state, files };
    }
    case 'changeset/filesReviewChanged':
      return setReviewed(state, new Set(action.files), action.reviewed);
    case 'changeset/contentChanged': {
      const { files, operations } = action;
      return { ...state, files, ...(operations && { operations }) };
    }
    case 'changeset/operationsChanged':
      return setKey(state, 'operations', action.operations);
    case 'changeset/operationStatusChanged': {
      const at = state.operations?.findIndex((operation) => operation.id === action.operationId) ?? -1;
      const operation = state.operations?.[at];
      if (!state.operations || !operation) return state;
      const next: ChangesetOperation = withStatus(operation, action.status, action.error);
      return { ...state, operations: state.operations.with(at, next) };
    }
    case 'changeset/cleared':
      return state.files.length === 0 ? state : { ...state, files: [] };
    default:
      return state;
  }
}

/** Sets a status. An error remains only with the status `error`. */
function withStatus<T extends { readonly status: string; readonly error?: ErrorInfo }>(
  value: T,
  status: T['status'],
  error: ErrorInfo | undefined,
): T {
  return setKey({ ...value, status }, 'error', status === 'error' ? error : undefined);
}

function setReviewed(state: ChangesetState, ids: ReadonlySet<string>, reviewed: boolean): ChangesetState {
  const files = state.files.map((file) =>
    ids.has(file.id) && file.reviewed !== reviewed ? { ...file, reviewed } : file,
  );
  return files.some((file, at) => file !== state.files[at]) ? { ...state, files } : state;
}
