//! Detects where the streamed arguments of a tool call end, without storing them.

/// Progress within a JSON object. It tracks brackets and strings, which is enough to find the end of the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ArgumentsScanner {
    /// Only white space so far.
    #[default]
    Empty,
    /// Inside the object.
    Open { depth: u32, string: StringState },
    /// The object has ended.
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringState {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// The text is not a JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnObject;

impl ArgumentsScanner {
    /// Scans the next piece.
    pub(super) fn push(&mut self, piece: &str) -> Result<(), NotAnObject> {
        for byte in piece.bytes() {
            *self = self.advance(byte)?;
        }
        Ok(())
    }

    fn advance(self, byte: u8) -> Result<Self, NotAnObject> {
        let Self::Open { depth, string } = self else {
            return match (self, byte) {
                (_, b' ' | b'\t' | b'\n' | b'\r') => Ok(self),
                (Self::Empty, b'{') => Ok(Self::Open { depth: 1, string: StringState::Outside }),
                _ => Err(NotAnObject),
            };
        };
        let string = match (string, byte) {
            (StringState::Escaped, _) => StringState::Inside,
            (StringState::Inside, b'\\') => StringState::Escaped,
            (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Inside, _) => StringState::Inside,
            (StringState::Outside, b'"') => StringState::Inside,
            (StringState::Outside, b'{' | b'[') => {
                let depth = depth.checked_add(1).ok_or(NotAnObject)?;
                return Ok(Self::Open { depth, string });
            }
            (StringState::Outside, b'}' | b']') if depth == 1 => return Ok(Self::Complete),
            (StringState::Outside, b'}' | b']') => return Ok(Self::Open { depth: depth - 1, string }),
            (StringState::Outside, _) => StringState::Outside,
        };
        Ok(Self::Open { depth, string })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn after(text: &str) -> Result<ArgumentsScanner, NotAnObject> {
        let mut arguments = ArgumentsScanner::default();
        arguments.push(text).map(|()| arguments)
    }

    #[test]
    fn the_end_of_an_object_is_detected() {
        assert_eq!(after(" \n"), Ok(ArgumentsScanner::Empty));
        for whole in ["{}", " {} ", r#"{"a":[1,{"b":"}]\"\\"}]}"#] {
            assert_eq!(after(whole), Ok(ArgumentsScanner::Complete), "{whole}");
        }
        for part in ["{", r#"{"a":"}"#, r#"{"a":"\""#, r#"{"a":[]"#] {
            assert!(matches!(after(part), Ok(ArgumentsScanner::Open { .. })), "{part}");
        }
        for other in ["null", "[]", "\"{}\"", "{}{", "{} x"] {
            assert_eq!(after(other), Err(NotAnObject), "{other}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".*".prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(".{0,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_is_complete_at_its_last_byte_and_not_earlier(value in value()) {
            let text = json!({"value": value}).to_string();
            prop_assert_eq!(after(&text), Ok(ArgumentsScanner::Complete));
            for (at, _) in text.char_indices().skip(1) {
                let (part, _) = text.split_at(at);
                let is_open = matches!(after(part), Ok(ArgumentsScanner::Open { .. }));
                prop_assert!(is_open);
            }
        }
    }
}
