//! The models on offer.

/// A model that an agent may be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The id in the agent's form, as it stands in a request.
    pub id: String,
    /// The name for people.
    pub name: String,
}

/// The list that is used while no upstream has told its own; never empty, the default first.
///
/// The scripted upstream takes any id, but agents derive thinking and limits from the name, so it offers real ones.
pub(crate) fn bundled() -> Vec<Model> {
    [
        ("claude-sonnet-4-5", "Claude Sonnet 4.5"),
        ("claude-opus-4-5", "Claude Opus 4.5"),
        ("claude-haiku-4-5", "Claude Haiku 4.5"),
    ]
    .map(|(id, name)| Model { id: id.to_owned(), name: name.to_owned() })
    .into()
}
