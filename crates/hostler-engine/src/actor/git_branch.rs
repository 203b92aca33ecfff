//! Reads the git branch of the session's directory for its configuration: when the session is created or loaded, and
//! after each turn. Git runs off the actor.

use ahp_types::StateAction;
use ahp_types::actions::SessionConfigChangedAction;
use ahp_types::common::JsonObject;
use serde_json::Value;

use super::{SessionActor, SessionInput};
use crate::{config, git};

impl SessionActor {
    /// Runs git, if the directory may be read.
    pub(super) fn read_git_branch(&mut self) {
        let shown = self.session.session.config.as_ref().map(|config| &config.schema.properties);
        let Some(directory) = self.session.working_directory() else { return };
        if !shown.is_some_and(|properties| properties.contains_key(config::BRANCH)) || !git::is_repository(&directory) {
            return;
        }
        let (commands, clock) = (self.host.command_runner.clone(), self.host.clock.clone());
        self.tasks.spawn(async move {
            SessionInput::GitBranchRead(git::current_branch(&*commands, &*clock, &directory).await)
        });
    }

    /// Publishes the branch; a detached head has none.
    pub(super) async fn publish_git_branch(&mut self, branch: Option<String>) {
        let branch = branch.map_or(Value::Null, Value::from);
        let now = self.session.session.config.as_ref().and_then(|config| config.values.get(config::BRANCH));
        if *now.unwrap_or(&Value::Null) == branch {
            return;
        }
        let config = JsonObject::from_iter([(config::BRANCH.to_owned(), branch)]);
        let change = SessionConfigChangedAction { config, replace: None };
        self.publish_session_action(StateAction::SessionConfigChanged(change)).await;
    }
}
