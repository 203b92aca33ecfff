//! The name of an enum variant without its fields.

use std::fmt::{self, Write as _};

/// The name of an enum's variant without its fields. For enums of other crates, whose `Debug` prints all fields.
pub fn variant_name(value: &impl fmt::Debug) -> String {
    let mut name = VariantNameWriter(String::new());
    // The writer stops with an error after the name.
    let _stopped = write!(name, "{value:?}");
    name.0
}

/// Accepts text until the first name ends.
struct VariantNameWriter(String);

impl fmt::Write for VariantNameWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let name = text.split([' ', '(', '{']).next().unwrap_or_default();
        self.0.push_str(name);
        if name.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "fields are only formatted")]
    enum Event {
        Empty,
        Text(&'static str),
        Message { text: &'static str },
    }

    #[test]
    fn variant_name_omits_fields() {
        assert_eq!(variant_name(&Event::Empty), "Empty");
        assert_eq!(variant_name(&Event::Text("planted")), "Text");
        assert_eq!(variant_name(&Event::Message { text: "planted" }), "Message");
    }
}
