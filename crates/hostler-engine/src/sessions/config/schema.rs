//! The JSON schemas of configurations, from which clients render their pickers.

use std::collections::HashMap;

use ahp_types::state::{ConfigPropertySchema, ConfigSchema, SessionConfigPropertySchema, SessionConfigSchema};
use serde_json::Value;

use super::modes::{self, DEFAULT_MODE, EnumOption};
use super::{
    AUTO_APPROVE, BACKGROUND_ON_STOP, BRANCH, ConfigChoices, DEFAULT_EFFORT, EFFORT, EFFORTS, ISOLATION,
    ISOLATION_FOLDER, LIMIT_PROPERTIES, MODE, MODEL, PERMISSION_MODE, SHOW_EXTERNAL, THINKING_BUDGET,
};

use crate::external_sessions::ExternalSessionFilter;
use crate::sessions::background_on_stop::BackgroundOnStop;

/// The schema of a session's configuration.
pub(crate) fn session_schema(offer: &ConfigChoices) -> SessionConfigSchema {
    let bypass = offer.allow_bypass;
    let thinking = property("number", "Thinking budget", "Maximum number of thinking tokens, from the next message on");
    let background = SessionConfigPropertySchema {
        r#enum: Some(BackgroundOnStop::ALL.map(|(name, ..)| name.into()).to_vec()),
        enum_labels: Some(BackgroundOnStop::ALL.map(|(name, ..)| capitalize(name)).to_vec()),
        enum_descriptions: Some(BackgroundOnStop::ALL.map(|(.., meaning)| meaning.to_owned()).to_vec()),
        ..property("string", "Background work on stop", "What happens to background work when a turn is stopped")
    };
    let isolation = SessionConfigPropertySchema {
        session_mutable: None,
        ..enum_property(
            "Isolation",
            "Where the agent works",
            ISOLATION_FOLDER,
            &[EnumOption(ISOLATION_FOLDER, "Folder", "In the working directory itself")],
        )
    };
    let mut properties = HashMap::from([
        (PERMISSION_MODE.to_owned(), permission_mode_property(bypass)),
        (MODE.to_owned(), enum_property("Mode", "How the agent works", "interactive", &modes::VSCODE_MODES)),
        (AUTO_APPROVE.to_owned(), {
            let approvals: Vec<_> = modes::available_approvals(bypass).copied().collect();
            enum_property("Approvals", "What the agent does without asking", DEFAULT_MODE, &approvals)
        }),
        (MODEL.to_owned(), model_property(offer)),
        (EFFORT.to_owned(), effort_property()),
        (THINKING_BUDGET.to_owned(), thinking),
        (BACKGROUND_ON_STOP.to_owned(), background),
        (ISOLATION.to_owned(), isolation),
    ]);
    if offer.is_repository {
        // Sessions work in the directory itself, so its branch is read-only.
        let branch = property("string", "Branch", "The current branch of the working directory");
        let branch = SessionConfigPropertySchema {
            read_only: Some(true),
            enum_dynamic: Some(true),
            session_mutable: None,
            ..branch
        };
        properties.insert(BRANCH.to_owned(), branch);
    }
    properties.extend(
        LIMIT_PROPERTIES.map(|(key, title, description)| (key.to_owned(), property("number", title, description))),
    );
    SessionConfigSchema { r#type: "object".to_owned(), properties, required: None }
}

/// The schema of the host's configuration: defaults of new sessions. Clients store values of their own there, too.
pub(crate) fn host_schema(offer: &ConfigChoices) -> ConfigSchema {
    // The list of models changes while the host runs, and there is no notification of a changed schema.
    let model = SessionConfigPropertySchema { r#enum: None, enum_labels: None, ..model_property(offer) };
    let options = ExternalSessionFilter::ALL.map(|(name, label, meaning, _)| EnumOption(name, label, meaning));
    let external = enum_property("External sessions", "Which external sessions are listed", "all", &options);
    let properties = [
        (PERMISSION_MODE, permission_mode_property(false)),
        (MODEL, model),
        (EFFORT, effort_property()),
        (SHOW_EXTERNAL, external),
    ];
    let properties = properties.map(|(key, property)| (key.to_owned(), to_host_property(property)));
    ConfigSchema { r#type: "object".to_owned(), properties: HashMap::from(properties), required: None }
}

fn permission_mode_property(bypass: bool) -> SessionConfigPropertySchema {
    let modes: Vec<_> = modes::available_modes(bypass).map(|(name, _)| *name).collect();
    enum_property("Permission mode", "What the agent may do without asking", DEFAULT_MODE, &modes)
}

fn model_property(offer: &ConfigChoices) -> SessionConfigPropertySchema {
    SessionConfigPropertySchema {
        r#enum: Some(offer.models.iter().map(|model| model.id.as_str().into()).collect()),
        enum_labels: Some(offer.models.iter().map(|model| model.name.clone()).collect()),
        // The list may change during the session.
        enum_dynamic: Some(true),
        ..property("string", "Model", "The model of messages without a model of their own")
    }
}

fn effort_property() -> SessionConfigPropertySchema {
    SessionConfigPropertySchema {
        default: Some(DEFAULT_EFFORT.into()),
        r#enum: Some(EFFORTS.map(Value::from).to_vec()),
        enum_labels: Some(EFFORTS.map(|effort| format!("{} effort", capitalize(effort))).to_vec()),
        ..property("string", "Effort", "How hard the model thinks, from the next message on")
    }
}

/// An enum property with these values.
fn enum_property(title: &str, description: &str, default: &str, options: &[EnumOption]) -> SessionConfigPropertySchema {
    SessionConfigPropertySchema {
        default: Some(default.into()),
        r#enum: Some(options.iter().map(|EnumOption(name, ..)| (*name).into()).collect()),
        enum_labels: Some(options.iter().map(|EnumOption(_, label, _)| (*label).to_owned()).collect()),
        enum_descriptions: Some(options.iter().map(|EnumOption(.., meaning)| (*meaning).to_owned()).collect()),
        ..property("string", title, description)
    }
}

/// A word with an upper-case first letter.
fn capitalize(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A property that clients may change during the session.
fn property(r#type: &str, title: &str, description: &str) -> SessionConfigPropertySchema {
    SessionConfigPropertySchema {
        r#type: r#type.to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        default: None,
        r#enum: None,
        enum_labels: None,
        enum_descriptions: None,
        read_only: None,
        items: None,
        min_items: None,
        max_items: None,
        properties: None,
        required: None,
        additional_properties: None,
        enum_dynamic: None,
        session_mutable: Some(true),
    }
}

/// The same property in the host's configuration.
fn to_host_property(property: SessionConfigPropertySchema) -> ConfigPropertySchema {
    ConfigPropertySchema {
        r#type: property.r#type,
        title: property.title,
        description: property.description,
        default: property.default,
        r#enum: property.r#enum,
        enum_labels: property.enum_labels,
        enum_descriptions: property.enum_descriptions,
        read_only: None,
        items: None,
        min_items: None,
        max_items: None,
        properties: None,
        required: None,
        additional_properties: None,
    }
}
