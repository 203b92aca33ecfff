//! Configuration of sessions: schemas, values and completions for clients. Changes nothing.

use std::path::{Path, PathBuf};

use ahp_types::commands::SessionConfigValueItem;
use ahp_types::common::JsonObject;
use ahp_types::state::SessionConfigSchema;
use url::Url;

use crate::EngineError;
use crate::engine::Engine;
use crate::host::Host;
use crate::resources::git;
use crate::sessions::config::{self, ConfigChoices};

/// A configuration's schema and values.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The schema.
    pub schema: SessionConfigSchema,
    /// The values.
    pub values: JsonObject,
}

/// A session that a client is about to create.
#[derive(Debug, Clone, Default)]
pub struct SessionConfigRequest {
    /// Its provider; any if absent.
    pub provider: Option<String>,
    /// The file URI of its directory.
    pub directory: Option<String>,
    /// Values that are chosen so far.
    pub values: JsonObject,
}

impl Host {
    /// The choices for sessions in a directory.
    pub(crate) fn config_choices(&self, directory: Option<&Path>) -> ConfigChoices {
        ConfigChoices {
            allow_bypass: self.permissions.config().allow_bypass,
            models: self.agents.gateway().models(),
            is_repository: directory.is_some_and(git::is_repository),
        }
    }

    /// The configuration of a new session, without the part that requires git.
    pub(crate) fn session_config(
        &self,
        directory: Option<&Path>,
        wanted: &JsonObject,
    ) -> Result<SessionConfig, EngineError> {
        let offer = self.config_choices(directory);
        // The host's own settings override what clients have set.
        let written = self.publication.config_values();
        let values = config::resolve_session_values(&offer, wanted, &[&self.settings.session_defaults, &written])?;
        Ok(SessionConfig { schema: config::session_schema(&offer), values })
    }
}

impl Engine {
    /// Returns the configuration of a session with defaults filled in. Changes nothing.
    ///
    /// # Errors
    /// If the provider is unknown or a value does not match the schema.
    pub async fn resolve_config(&self, request: &SessionConfigRequest) -> Result<SessionConfig, EngineError> {
        let (engine, wanted) = (self.clone(), request.clone());
        let (directory, mut config) = read_disk(move || {
            let directory = engine.requested_directory(&wanted)?;
            let config = engine.host.session_config(directory.as_deref(), &wanted.values)?;
            Ok((directory, config))
        })
        .await?;
        let host = &self.host;
        if let Some(directory) = directory.filter(|_| config.schema.properties.contains_key(config::BRANCH))
            && let Some(branch) =
                git::current_branch(&**host.terminals.command_runner(), &*host.clock, &directory).await
        {
            config.values.insert(config::BRANCH.to_owned(), branch.into());
        }
        Ok(config)
    }

    /// The values of one property that match a search.
    ///
    /// # Errors
    /// If the provider is unknown.
    pub async fn config_values(
        &self,
        request: &SessionConfigRequest,
        property: &str,
        query: &str,
    ) -> Result<Vec<SessionConfigValueItem>, EngineError> {
        let (engine, wanted) = (self.clone(), request.clone());
        let (directory, choices) = read_disk(move || {
            let directory = engine.requested_directory(&wanted)?;
            let choices = engine.host.config_choices(directory.as_deref());
            Ok((directory, choices))
        })
        .await?;
        let host = &self.host;
        let branches = match &directory {
            Some(directory) if property == config::BRANCH => {
                git::branches(&**host.terminals.command_runner(), &*host.clock, directory).await
            }
            _ => None,
        };
        Ok(config::values_of(&choices, &branches.unwrap_or_default(), property, query))
    }

    /// The directory of a requested session; `None` if it does not exist (yet).
    fn requested_directory(&self, request: &SessionConfigRequest) -> Result<Option<PathBuf>, EngineError> {
        if let Some(provider) = request.provider.as_ref().filter(|provider| !self.host.agents.has_provider(provider)) {
            return Err(EngineError::ProviderNotFound(provider.clone()));
        }
        let named =
            request.directory.as_deref().map(|uri| Url::parse(uri).ok().and_then(|url| url.to_file_path().ok()));
        Ok(match named {
            Some(place) => place.filter(|place| place.is_dir()),
            None => Some(self.host.settings.default_directory.clone()),
        })
    }
}

/// Runs work that reads the disk on a blocking thread.
async fn read_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| EngineError::TaskFailed(error.to_string()))?
}
