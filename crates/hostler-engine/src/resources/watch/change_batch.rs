//! Merges changes of a short period into one change per path. Pure.

use std::collections::HashMap;
use std::path::PathBuf;

use ahp_types::state::ResourceChangeType::{self, Added, Deleted, Updated};

/// Maximum number of changes in a batch; a larger batch is reported as one change of the whole directory.
pub(super) const MAX_BATCH_CHANGES: usize = 1000;

/// Changes of a short period, each path once, in the order of first changes.
#[derive(Debug, Default)]
pub(super) struct ChangeBatch {
    order: Vec<PathBuf>,
    kinds: HashMap<PathBuf, Option<ResourceChangeType>>,
    has_overflowed: bool,
}

impl ChangeBatch {
    pub(super) fn add(&mut self, path: PathBuf, kind: ResourceChangeType) {
        if self.order.len() >= MAX_BATCH_CHANGES && !self.kinds.contains_key(&path) {
            self.mark_overflowed();
        }
        if self.has_overflowed {
            return;
        }
        let next = match self.kinds.get(&path).copied() {
            None => {
                self.order.push(path.clone());
                Some(kind)
            }
            // Added and deleted within the batch: no client has seen it.
            Some(Some(Added)) if kind == Deleted => None,
            Some(Some(Added)) => Some(Added),
            // Deleted and added again.
            Some(Some(Deleted)) if kind != Deleted => Some(Updated),
            Some(Some(Updated)) if kind == Added => Some(Updated),
            Some(None) | Some(Some(_)) => Some(kind),
        };
        self.kinds.insert(path, next);
    }

    /// Marks the batch as too large to report each change.
    pub(super) fn mark_overflowed(&mut self) {
        self.has_overflowed = true;
        self.order.clear();
        self.kinds.clear();
    }

    /// The merged changes; empty if all of them cancelled out. `None` if there were too many.
    pub(super) fn finish(self) -> Option<Vec<(PathBuf, ResourceChangeType)>> {
        let mut kinds = self.kinds;
        let changes = self.order.into_iter().filter_map(|path| {
            let kind = kinds.remove(&path).flatten()?;
            Some((path, kind))
        });
        (!self.has_overflowed).then(|| changes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_path_are_merged() {
        let check = |kinds: &[ResourceChangeType], expected: Option<ResourceChangeType>| {
            let mut gathered = ChangeBatch::default();
            kinds.iter().for_each(|kind| gathered.add(PathBuf::from("x"), *kind));
            let changes = gathered.finish().unwrap();
            assert_eq!(changes.first().map(|(_, kind)| *kind), expected, "{kinds:?}");
        };
        check(&[Added, Updated, Updated], Some(Added));
        check(&[Added, Updated, Deleted], None);
        check(&[Added, Deleted, Added], Some(Added));
        check(&[Updated, Updated], Some(Updated));
        check(&[Updated, Deleted], Some(Deleted));
        check(&[Deleted, Added], Some(Updated));
        check(&[Deleted, Added, Deleted], Some(Deleted));
    }

    #[test]
    fn paths_keep_their_order_and_too_many_changes_overflow() {
        let mut gathered = ChangeBatch::default();
        for name in ["b", "a", "b", "c"] {
            gathered.add(PathBuf::from(name), Updated);
        }
        let names: Vec<_> = gathered.finish().unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, ["b", "a", "c"].map(PathBuf::from));
        let mut gathered = ChangeBatch::default();
        (0..=MAX_BATCH_CHANGES).for_each(|number| gathered.add(PathBuf::from(number.to_string()), Added));
        gathered.add(PathBuf::from("late"), Added);
        assert!(gathered.finish().is_none());
    }
}
