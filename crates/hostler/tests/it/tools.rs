//! Tools, permissions and questions with the real Claude Code, both builds, on the scripted model.

mod approval_without_clients;
mod audit;
mod elicitation;
mod permissions;
mod questions_and_plans;
mod rules;
mod shell_output;
mod sub_agents;
