/** Reducer for annotations channels. */

import type { Action, Annotation, AnnotationsState } from '../types/index.ts';
import { omitUndefined, removeItem, upsert } from './objects.ts';

export function reduceAnnotations(state: AnnotationsState, action: Action): AnnotationsState {
  switch (action.type) {
    case 'annotations/set': {
      const { annotation } = action;
      return { ...state, annotations: upsert(state.annotations, annotation, (other) => other.id === annotation.id) };
    }
    case 'annotations/removed': {
      const annotations = removeItem(state.annotations, (other) => other.id === action.annotationId);
      return annotations === state.annotations ? state : { ...state, annotations };
    }
    case 'annotations/updated': {
      const { origin, resource, range, resolved } = action;
      const changes = omitUndefined<Partial<Annotation>>({ origin, resource, range, resolved });
      return updateAnnotation(state, action.annotationId, (found) => ({ ...found, ...changes }));
    }
    case 'annotations/entrySet': {
      const { entry } = action;
      return updateAnnotation(state, action.annotationId, (found) => ({
        ...found,
        entries: upsert(found.entries, entry, (other) => other.id === entry.id),
      }));
    }
    case 'annotations/entryRemoved':
      return updateAnnotation(state, action.annotationId, (found) => {
        const entries = removeItem(found.entries, (entry) => entry.id === action.entryId);
        return entries === found.entries ? found : { ...found, entries };
      });
    default:
      return state;
  }
}

function updateAnnotation(
  state: AnnotationsState,
  id: string,
  change: (found: Annotation) => Annotation,
): AnnotationsState {
  const at = state.annotations.findIndex((annotation) => annotation.id === id);
  const found = state.annotations[at];
  const next = found && change(found);
  return !next || next === found ? state : { ...state, annotations: state.annotations.with(at, next) };
}
