//! Why one file cannot be sent, before it is said of which.

use crate::{Code, Refusal, Title};

/// What can be done with contents that cannot be sent.
pub(crate) const BY_PATH: &str = "put it into the workspace and attach its path instead, so that the agent can open it";

/// A reason without a name. Its sentence holds numbers and our own words, never anything of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    code: Code,
    sentence: String,
}

impl Fault {
    pub(crate) fn too_large(sentence: impl Into<String>) -> Self {
        Self { code: Code::TooLarge, sentence: sentence.into() }
    }

    pub(crate) fn unsupported(sentence: impl Into<String>) -> Self {
        Self { code: Code::TypeUnsupported, sentence: sentence.into() }
    }

    pub(crate) fn corrupt(sentence: impl Into<String>) -> Self {
        Self { code: Code::Corrupt, sentence: sentence.into() }
    }

    pub(crate) fn not_optimized(sentence: impl Into<String>) -> Self {
        Self { code: Code::OptimizationFailed, sentence: sentence.into() }
    }

    pub(crate) fn payload(sentence: impl Into<String>) -> Self {
        Self { code: Code::PayloadTooLarge, sentence: sentence.into() }
    }

    pub(crate) fn of(self, name: &Title) -> Refusal {
        Refusal { code: self.code, name: name.clone(), sentence: self.sentence }
    }
}

/// `10 MiB`, `3.8 MiB`, `12 KiB`, `7 bytes`: as people read sizes.
pub(crate) fn readable(bytes: usize) -> String {
    let tenths = |unit: usize| {
        let tenths = bytes.saturating_mul(10).div_ceil(unit);
        if tenths.is_multiple_of(10) { format!("{}", tenths / 10) } else { format!("{}.{}", tenths / 10, tenths % 10) }
    };
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", tenths(1024)),
        _ => format!("{} MiB", tenths(1_048_576)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (12 << 10, "12 KiB"), (10 << 20, "10 MiB")] {
            assert_eq!(readable(bytes), text);
        }
        assert_eq!(readable(3_932_161), "3.8 MiB", "rounded up, or a limit and what is over it would read the same");
    }
}
