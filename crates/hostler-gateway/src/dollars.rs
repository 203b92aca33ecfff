//! Amounts of money in whole billionths of a dollar, so that sums are exact.

use std::fmt;

/// Billionths in a dollar.
const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// An amount of US dollars, exact to a billionth; never negative. Arithmetic saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dollars(u64);

impl Dollars {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// An amount of billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// An amount of cents.
    #[must_use]
    pub const fn from_cents(cents: u64) -> Self {
        Self(cents.saturating_mul(NANOS_PER_DOLLAR / 100))
    }

    /// The amount in billionths of a dollar.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The sum of two amounts.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Writes `$0.00`, `$12.50` or `$0.001305`.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0 % NANOS_PER_DOLLAR);
        let fraction = digits.trim_end_matches('0');
        write!(f, "${}.{fraction:0<2}", self.0 / NANOS_PER_DOLLAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_decimals_or_as_many_as_needed() {
        for (nanos, shown) in [
            (0, "$0.00"),
            (12_500_000_000, "$12.50"),
            (3_000_000_000, "$3.00"),
            (1, "$0.000000001"),
            (1_305_000, "$0.001305"),
            (u64::MAX, "$18446744073.709551615"),
        ] {
            assert_eq!(Dollars::from_nanos(nanos).to_string(), shown);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let (one, most) = (Dollars::from_cents(100), Dollars::from_nanos(u64::MAX));
        assert_eq!((most.saturating_add(one), one.saturating_sub(most)), (most, Dollars::ZERO));
        assert_eq!(Dollars::from_cents(u64::MAX), most);
    }
}
