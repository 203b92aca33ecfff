//! The engine's answers about configuration: what can be chosen, and how things are.

use std::path::{Path, PathBuf};

use ahp_types::commands::SessionConfigValueItem;
use ahp_types::common::JsonObject;
use ahp_types::state::SessionConfigSchema;
use url::Url;

use crate::EngineError;
use crate::config::{self, ConfigChoices};
use crate::engine::Engine;
use crate::git;
use crate::host::Host;

/// A configuration's schema and its values.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// What can be configured.
    pub schema: SessionConfigSchema,
    /// How it is.
    pub values: JsonObject,
}

/// A session that somebody thinks about.
#[derive(Debug, Clone, Default)]
pub struct SessionConfigRequest {
    /// Its provider; any if it is absent.
    pub provider: Option<String>,
    /// The file URI of its directory.
    pub directory: Option<String>,
    /// What is chosen so far.
    pub values: JsonObject,
}

impl Host {
    /// What can be chosen for sessions in a directory.
    pub(crate) fn config_choices(&self, directory: Option<&Path>) -> ConfigChoices {
        ConfigChoices {
            allow_bypass: self.permissions.allow_bypass,
            models: self.gateway.models(),
            is_repository: directory.is_some_and(git::is_repository),
        }
    }

    /// A new session's configuration, but for what only git knows.
    pub(crate) fn session_config(
        &self,
        directory: Option<&Path>,
        wanted: &JsonObject,
    ) -> Result<SessionConfig, EngineError> {
        let offer = self.config_choices(directory);
        // The settings of the host itself beat what clients have written.
        let written = self.root_channel.config_values();
        let values = config::resolve_session_values(&offer, wanted, &[&self.session_defaults, &written])
            .map_err(EngineError::Invalid)?;
        Ok(SessionConfig { schema: config::session_schema(&offer), values })
    }
}

impl Engine {
    /// What can be configured for a session, with defaults filled in. Changes nothing.
    ///
    /// # Errors
    /// If the provider is unknown or a value is not one of the schema's.
    pub async fn resolve_config(&self, wish: &SessionConfigRequest) -> Result<SessionConfig, EngineError> {
        let directory = self.requested_directory(wish)?;
        let mut config = self.host.session_config(directory.as_deref(), &wish.values)?;
        let host = &self.host;
        if let Some(directory) = directory.filter(|_| config.schema.properties.contains_key(config::BRANCH))
            && let Some(branch) = git::current_branch(&*host.command_runner, &*host.clock, &directory).await
        {
            config.values.insert(config::BRANCH.to_owned(), branch.into());
        }
        Ok(config)
    }

    /// The values of one property that fit a search.
    ///
    /// # Errors
    /// If the provider is unknown.
    pub async fn config_values(
        &self,
        wish: &SessionConfigRequest,
        property: &str,
        query: &str,
    ) -> Result<Vec<SessionConfigValueItem>, EngineError> {
        let directory = self.requested_directory(wish)?;
        let host = &self.host;
        let branches = match &directory {
            Some(directory) if property == config::BRANCH => {
                git::branches(&*host.command_runner, &*host.clock, directory).await
            }
            _ => None,
        };
        Ok(config::values_of(
            &host.config_choices(directory.as_deref()),
            &branches.unwrap_or_default(),
            property,
            query,
        ))
    }

    /// The directory of a session that somebody thinks about. One that is not there (yet) is none.
    fn requested_directory(&self, wish: &SessionConfigRequest) -> Result<Option<PathBuf>, EngineError> {
        if let Some(provider) = wish.provider.as_ref().filter(|provider| !self.host.drivers.contains_key(*provider)) {
            return Err(EngineError::ProviderNotFound(provider.clone()));
        }
        let named = wish.directory.as_deref().map(|uri| Url::parse(uri).ok().and_then(|url| url.to_file_path().ok()));
        Ok(match named {
            Some(place) => place.filter(|place| place.is_dir()),
            None => Some(self.host.default_directory.clone()),
        })
    }
}
