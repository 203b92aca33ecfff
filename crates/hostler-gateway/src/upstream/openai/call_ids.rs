//! Ids of tool calls. Agents find a result by its id alone, so an id must be new in the whole conversation; some
//! servers give none, and some give the same ones in every answer.

use std::collections::HashSet;

#[derive(Debug)]
pub(super) struct CallIds {
    taken: HashSet<String>,
    /// Ids of our own are made from the message's.
    message_id: String,
    made: usize,
}

impl CallIds {
    pub(super) fn new(message_id: &str, taken: HashSet<String>) -> Self {
        Self { taken, message_id: message_id.to_owned(), made: 0 }
    }

    /// The server's id if it is a good one, otherwise one of our own.
    pub(super) fn choose(&mut self, given: &str) -> String {
        if !given.is_empty() && self.taken.insert(given.to_owned()) {
            return given.to_owned();
        }
        loop {
            let id = format!("call_{}_{}", self.message_id, self.made);
            self.made += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_unless_it_is_missing_or_taken() {
        let mut ids = CallIds::new("m", HashSet::from(["call_0".to_owned(), "call_m_1".to_owned()]));
        let chosen = ["call_7", "call_0", "", "call_7", ""].map(|given| ids.choose(given));
        assert_eq!(chosen, ["call_7", "call_m_0", "call_m_2", "call_m_3", "call_m_4"]);
    }
}
