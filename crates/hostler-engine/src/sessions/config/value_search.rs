//! Searches the possible values of a configuration property, for clients' pickers.

use ahp_types::commands::SessionConfigValueItem;

use super::schema;
use super::{BRANCH, ConfigChoices};
use crate::resources::git::GitBranches;

/// Maximum number of returned values.
const MAX_OFFERED_VALUES: usize = 50;

/// The values of a property that match a search, the best first.
pub(crate) fn matching_values(
    offer: &ConfigChoices,
    branches: &GitBranches,
    property: &str,
    query: &str,
) -> Vec<SessionConfigValueItem> {
    let mut items = match property {
        BRANCH => branch_values(branches),
        _ => schema_values(offer, property),
    };
    let query = query.trim().to_lowercase();
    let fits = |item: &SessionConfigValueItem| {
        item.value.to_lowercase().contains(&query) || item.label.to_lowercase().contains(&query)
    };
    items.retain(fits);
    // Values that start with the query rank before values that only contain it.
    items.sort_by_key(|item| !item.value.to_lowercase().starts_with(&query));
    items.truncate(MAX_OFFERED_VALUES);
    items
}

/// The current branch of the directory, then the others.
fn branch_values(branches: &GitBranches) -> Vec<SessionConfigValueItem> {
    let others = branches.all.iter().filter(|name| Some(*name) != branches.current.as_ref());
    let item = |name: &String, description: Option<&str>| SessionConfigValueItem {
        value: name.clone(),
        label: name.clone(),
        description: description.map(str::to_owned),
    };
    let current = branches.current.iter().map(|name| item(name, Some("The current branch")));
    current.chain(others.map(|name| item(name, None))).collect()
}

/// The values in the schema.
fn schema_values(offer: &ConfigChoices, property: &str) -> Vec<SessionConfigValueItem> {
    let Some(property) = schema::session_schema(offer).properties.remove(property) else { return Vec::new() };
    let (labels, meanings) = (property.enum_labels.unwrap_or_default(), property.enum_descriptions.unwrap_or_default());
    let names = property.r#enum.unwrap_or_default();
    let names = names.iter().enumerate().filter_map(|(place, name)| Some((place, name.as_str()?)));
    let items = names.map(|(place, name)| SessionConfigValueItem {
        value: name.to_owned(),
        label: labels.get(place).map_or(name, String::as_str).to_owned(),
        description: meanings.get(place).cloned(),
    });
    items.collect()
}
