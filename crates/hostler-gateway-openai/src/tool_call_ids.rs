//! Chooses ids of tool calls. Agents find a result by its id alone, so an id must be unique in the conversation; some
//! servers send none, and some repeat the same ids in every response. OpenAI accepts at most 40 characters.

use std::collections::HashSet;

#[derive(Debug)]
pub(super) struct ToolCallIds {
    used: HashSet<String>,
    /// Prefix of generated ids: the message's id without its own prefix.
    prefix: String,
    generated_count: usize,
}

impl ToolCallIds {
    pub(super) fn new(message_id: &str, used: HashSet<String>) -> Self {
        let prefix = message_id.strip_prefix("msg_").unwrap_or(message_id).to_owned();
        Self { used, prefix, generated_count: 0 }
    }

    /// The server's id if it is usable, otherwise a generated one.
    pub(super) fn choose(&mut self, given: &str) -> String {
        if !given.is_empty() && self.used.insert(given.to_owned()) {
            return given.to_owned();
        }
        loop {
            let id = format!("c_{}_{}", self.prefix, self.generated_count);
            self.generated_count += 1;
            if self.used.insert(id.clone()) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content_block_writer::MAX_TOOL_CALLS;

    #[test]
    fn an_id_is_reused_unless_it_is_missing_or_taken() {
        let mut ids = ToolCallIds::new("msg_m", HashSet::from(["call_0".to_owned(), "c_m_1".to_owned()]));
        let chosen = ["call_7", "call_0", "", "call_7", ""].map(|given| ids.choose(given));
        assert_eq!(chosen, ["call_7", "c_m_0", "c_m_2", "c_m_3", "c_m_4"]);
    }

    #[test]
    fn generated_ids_have_at_most_forty_characters() {
        let mut ids = ToolCallIds::new(&format!("msg_{}", "f".repeat(32)), HashSet::new());
        assert!((0..MAX_TOOL_CALLS).all(|_| ids.choose("").len() <= 40));
    }
}
