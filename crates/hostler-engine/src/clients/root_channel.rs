//! The root channel: the state of the host as a whole (agents, models, configuration, terminal list).
//! The lock around the state makes its holder the only writer.

use std::sync::{Arc, PoisonError, RwLock};

use ahp_types::StateAction;
use ahp_types::actions::RootAgentsChangedAction;
use ahp_types::common::JsonObject;
use ahp_types::state::{
    AgentCapabilities, AgentInfo, MultipleWorkingDirectoriesCapability, RootConfigState, RootState, SessionModelInfo,
};
use hostler_driver::Driver;
use hostler_store::{ActionEntry, Batch, BatchDurability, JournalRow};
use tokio::sync::{Mutex, MutexGuard};

use crate::agents::model_gateway::ModelGateway;
use crate::clients::broadcaster::Subscriber;
use crate::external_sessions::ExternalSessionFilter;
use crate::host::Host;
use crate::sessions::config;
use crate::sessions::config::{ConfigChoices, ConfigValueError};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::state::{ChannelState, Reduce as _};
use crate::{EngineError, uri};

/// Maximum size of the configuration values that clients set.
const MAX_HOST_CONFIG_BYTES: usize = 1024 * 1024;

pub(crate) struct RootChannel {
    state: Mutex<Arc<RootState>>,
    /// The configuration values, for callers that cannot wait for the lock.
    config_values: RwLock<Arc<JsonObject>>,
}

impl RootChannel {
    /// Creates the state, with a terminal list if the host offers terminals.
    pub(crate) fn new(drivers: &[Arc<dyn Driver>], gateway: &dyn ModelGateway, terminals: bool) -> Self {
        let mut state = initial_state(drivers, gateway);
        state.terminals = terminals.then(Vec::new);
        Self { state: Mutex::new(Arc::new(state)), config_values: RwLock::default() }
    }

    /// Locks the state for a writer.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Arc<RootState>> {
        self.state.lock().await
    }

    /// The values that clients have set in the host's configuration.
    pub(crate) fn config_values(&self) -> Arc<JsonObject> {
        Arc::clone(&self.config_values.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn cache_config_values(&self, state: &RootState) {
        let values = state.config.as_ref().map(|config| config.values.clone()).unwrap_or_default();
        *self.config_values.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(values);
    }
}

impl Host {
    /// Loads the configuration that clients set before a restart.
    pub(crate) async fn load_root(&self) -> Result<(), EngineError> {
        let rows = self.store.actions(0, u64::MAX, vec![uri::ROOT_CHANNEL_URI.to_owned()]).await?;
        let mut state = self.publication.lock_root().await;
        for row in rows {
            let JournalRow::Action { json, .. } = row else { continue };
            if let Ok(action) = serde_json::from_str(&json) {
                Arc::make_mut(&mut state).reduce(&action);
            }
        }
        self.publication.root_channel.cache_config_values(&state);
        Ok(())
    }

    pub(crate) async fn subscribe_root(
        self: &Arc<Self>,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        // The lock makes the snapshot match its sequence number.
        let state = self.publication.lock_root().await;
        let snapshot = ChannelState::Root(Arc::clone(&state));
        self.publication.deliver_snapshot(uri::ROOT_CHANNEL_URI.into(), snapshot, subscriber, token).await
    }

    pub(crate) async fn dispatch_root(&self, dispatch: Dispatch) {
        let mut state = self.publication.lock_root().await;
        if self.answer_repeated_dispatch(&dispatch) {
            return;
        }
        if let Err(rejection) = self.accept_root(&mut state, &dispatch).await {
            self.publication.reject(dispatch, rejection).await;
        }
    }

    async fn accept_root(&self, state: &mut Arc<RootState>, dispatch: &Dispatch) -> Result<(), ActionRejection> {
        let StateAction::RootConfigChanged(change) = &dispatch.action else {
            return Err(ActionRejection::Unsupported);
        };
        config::check_host_change(&self.config_choices(None), &change.config)?;
        let mut next = Arc::clone(state);
        Arc::make_mut(&mut next).reduce(&dispatch.action);
        let size =
            next.config.as_ref().and_then(|config| serde_json::to_vec(&config.values).ok()).map_or(0, |v| v.len());
        if size > MAX_HOST_CONFIG_BYTES {
            return Err(ConfigValueError::TooLarge { max_bytes: MAX_HOST_CONFIG_BYTES }.into());
        }
        let entry = ActionEntry::new(uri::ROOT_CHANNEL_URI.into(), dispatch.action.clone())?;
        // Nothing changes: the client gets its echo, and the journal does not grow.
        let durability = if next == *state { BatchDurability::Memory } else { BatchDurability::Durable };
        let batch = Batch::new(None, durability).entry(entry.with_origin(Some(dispatch.origin())));
        self.publication.commit(batch).await?;
        *state = next;
        let shown = self.external_session_filter();
        self.publication.root_channel.cache_config_values(state);
        if self.external_session_filter() != shown {
            self.external.request_rescan();
        }
        Ok(())
    }
}

impl Host {
    /// Which external sessions are listed: decided by the host's own settings, otherwise by what clients have set.
    pub(crate) fn external_session_filter(&self) -> ExternalSessionFilter {
        let wanted =
            || ExternalSessionFilter::from_name(self.publication.config_values().get(config::SHOW_EXTERNAL)?.as_str()?);
        self.external.filter().or_else(wanted).unwrap_or_default()
    }

    /// Reads the gateway's models and publishes them if they have changed.
    pub(crate) async fn refresh_models(&self) {
        let mut state = self.publication.lock_root().await;
        let drivers = state.agents.iter().filter_map(|agent| self.agents.driver(&agent.provider));
        let agents = agent_infos(drivers, self.agents.gateway());
        if agents == state.agents {
            return;
        }
        let action = StateAction::RootAgentsChanged(RootAgentsChangedAction { agents });
        Arc::make_mut(&mut state).reduce(&action);
        let published = async {
            // Not journaled: the next start asks the gateway again.
            let batch = Batch::new(None, BatchDurability::Memory)
                .entry(ActionEntry::new(uri::ROOT_CHANNEL_URI.into(), action)?);
            self.publication.commit(batch).await
        };
        if let Err(error) = published.await {
            tracing::warn!(%error, "failed to publish the models");
        }
    }
}

/// The initial state, from the drivers and the gateway.
fn initial_state(drivers: &[Arc<dyn Driver>], gateway: &dyn ModelGateway) -> RootState {
    let config = RootConfigState { schema: config::host_schema(&ConfigChoices::default()), values: JsonObject::new() };
    let agents = agent_infos(drivers, gateway);
    RootState { agents, active_sessions: None, terminals: None, config: Some(config), meta: None }
}

/// The offered agents, each with all models.
fn agent_infos<'a>(
    drivers: impl IntoIterator<Item = &'a Arc<dyn Driver>>,
    gateway: &dyn ModelGateway,
) -> Vec<AgentInfo> {
    let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
    // Clients require a sign-in before they send a message, so only resources that need one are listed.
    let needed = gateway.protected_resources().into_iter().filter(|protected| protected.sign_in_need.is_some());
    let protected: Vec<_> = needed.map(|protected| protected.metadata()).collect();
    let agents = drivers.into_iter().map(|driver| {
        let info = driver.describe();
        let models = gateway.models().into_iter().map(|model| SessionModelInfo {
            id: model.id,
            provider: info.id.clone(),
            name: model.name,
            max_context_window: number(model.context_window),
            max_output_tokens: number(model.max_output_tokens),
            max_prompt_tokens: None,
            supports_vision: model.supports_vision,
            policy_state: None,
            config_schema: None,
            meta: None,
        });
        AgentInfo {
            provider: info.id.clone(),
            display_name: info.display_name.clone(),
            description: info.description.clone(),
            models: models.collect(),
            protected_resources: (!protected.is_empty()).then(|| protected.clone()),
            customizations: None,
            capabilities: Some(AgentCapabilities {
                multiple_chats: None,
                multiple_working_directories: Some(MultipleWorkingDirectoriesCapability {
                    immutable_primary: Some(true),
                    primary_replacement: None,
                }),
            }),
        }
    });
    agents.collect()
}
