//! The difference between a folder's configuration and the one that a person decided about.

use hostler_driver::ConfigurationItem;
use serde::{Deserialize, Serialize};

/// The items that differ between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationDifference {
    /// New items.
    pub added: Vec<ConfigurationItem>,
    /// Items with other contents than before.
    pub changed: Vec<ConfigurationItem>,
    /// Items that no longer exist.
    pub removed: Vec<ConfigurationItem>,
}

impl ConfigurationDifference {
    /// Compares the configuration that was decided about with the current one.
    pub fn between(before: &[ConfigurationItem], now: &[ConfigurationItem]) -> Self {
        let same = |one: &ConfigurationItem, other: &ConfigurationItem| {
            (one.kind, &one.name, &one.source) == (other.kind, &other.name, &other.source)
        };
        let mut difference = Self::default();
        for item in now {
            match before.iter().find(|known| same(known, item)) {
                None => difference.added.push(item.clone()),
                Some(known) if known.hash != item.hash => difference.changed.push(item.clone()),
                Some(_) => {}
            }
        }
        difference.removed = before.iter().filter(|known| !now.iter().any(|item| same(known, item))).cloned().collect();
        difference
    }

    /// Every item with `+` (added), `~` (changed) or `-` (removed).
    pub fn iter_marked(&self) -> impl Iterator<Item = (char, &ConfigurationItem)> {
        let mark = |mark: char| move |item| (mark, item);
        let added = self.added.iter().map(mark('+'));
        added.chain(self.changed.iter().map(mark('~'))).chain(self.removed.iter().map(mark('-')))
    }
}

#[cfg(test)]
mod tests {
    use hostler_driver::ConfigurationKind;

    use super::*;

    fn item(name: &str, hash: &str) -> ConfigurationItem {
        ConfigurationItem {
            kind: ConfigurationKind::Hook,
            name: name.to_owned(),
            source: ".claude/settings.json".to_owned(),
            hash: hash.to_owned(),
            blocked: None,
        }
    }

    #[test]
    fn difference_lists_added_changed_and_removed_items_only() {
        let before = [item("same", "1"), item("edited", "1"), item("gone", "1")];
        let now = [item("same", "1"), item("edited", "2"), item("new", "1")];
        let difference = ConfigurationDifference::between(&before, &now);
        let marked: Vec<_> = difference.iter_marked().map(|(mark, item)| format!("{mark}{}", item.name)).collect();
        assert_eq!(marked, ["+new", "~edited", "-gone"]);
        assert_eq!(ConfigurationDifference::between(&now, &now), ConfigurationDifference::default());
    }
}
