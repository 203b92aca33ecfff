//! Ensures that the next agent continues from the active branch.
//!
//! The conversation is the branch with the last message. Newer builds decide otherwise: an idle agent notes the last
//! record that it knows (`last-prompt`), and the next agent continues from the last such note, as long as no record
//! has the noted one as its parent. So the agent that exits last moves the conversation back to its own branch.
//! Before an agent is opened, the driver appends a corrected note if necessary.

use serde_json::json;
use uuid::Uuid;

use super::index::TranscriptIndex;
use super::record_chain::RecordChain;

/// Maximum distance from a noted record to a message: the records between are hidden ones of the agent.
const MAX_HIDDEN_RECORDS: usize = 64;

/// The record that the next agent must continue from, if it would continue from another branch.
pub(super) fn find_leaf_correction(index: &TranscriptIndex, chain: &RecordChain) -> Option<Uuid> {
    let links = &index.records;
    let place = |id, before: usize| links.get(..before)?.iter().rposition(|link| link.id == id);
    let mut named = place(index.leaf?, links.len())?;
    for _ in 0..MAX_HIDDEN_RECORDS {
        let link = links.get(named)?;
        if link.can_end_conversation() {
            break;
        }
        named = place(link.parent?, named)?;
    }
    // It is near the end if it is in the chain.
    if chain.positions.iter().rev().any(|at| *at == named) {
        return None;
    }
    let mut said = chain.positions.iter().filter_map(|at| links.get(*at)).rev();
    said.find(|link| link.can_end_conversation()).map(|link| link.id.uuid())
}

/// A `last-prompt` record.
pub(super) fn last_prompt_record(leaf: Uuid, prompt: &str, conversation: Uuid) -> String {
    format!(
        r#"{{"type":"last-prompt","lastPrompt":{},"leafUuid":"{leaf}","sessionId":"{conversation}"}}"#,
        json!(prompt)
    )
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The leaf correction in a conversation that two agents continued from `b`; `z` wrote the last message.
    fn leaf_after(notes: &[&str]) -> Option<Uuid> {
        let id = |name: u128| Uuid::from_u128(name);
        let said = |name: u128, parent: u128| {
            let (id, parent) = (id(name), id(parent));
            format!(r#"{{"type":"user","uuid":"{id}","parentUuid":"{parent}","message":{{"content":"hi"}}}}"#)
        };
        let behind = format!(r#"{{"type":"attachment","uuid":"{}","parentUuid":"{}"}}"#, id(5), id(3));
        let mut lines = vec![said(1, 0), said(2, 1), said(3, 2), behind, said(4, 2)];
        lines.extend(notes.iter().map(|note| (*note).to_owned()));
        let index = TranscriptIndex::read(&mut Cursor::new(lines.join("\n") + "\n")).unwrap();
        find_leaf_correction(&index, &RecordChain::from_index(&index))
    }

    #[test]
    fn leaf_is_corrected_when_it_names_an_abandoned_branch() {
        let named = |name: u128| last_prompt_record(Uuid::from_u128(name), "x", Uuid::nil());
        let end = Some(Uuid::from_u128(4));
        assert_eq!(leaf_after(&[]), None, "older builds note nothing");
        assert_eq!(leaf_after(&[&named(4)]), None);
        assert_eq!(leaf_after(&[&named(3)]), end);
        assert_eq!(leaf_after(&[&named(5)]), end, "a record after the other branch belongs to it");
        assert_eq!(leaf_after(&[&named(4), &named(3)]), end);
        assert_eq!(leaf_after(&[&named(3), &named(4)]), None, "the last note counts");
        assert_eq!(leaf_after(&[&named(2)]), None, "the agent continues from there, with its descendants");
        assert_eq!(leaf_after(&[&named(9)]), None, "it does not exist");
    }
}
