//! Money: whole billionths of a dollar, so that sums are exact.

use std::fmt;
use std::str::FromStr;

/// Billionths in a dollar.
const NANOS: u64 = 1_000_000_000;

/// An amount of US dollars, exact to a billionth; never negative, and it stops at the largest amount instead of
/// wrapping around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dollars(u64);

/// Why something is not an amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an amount of dollars; write it like 2.50, not negative, with at most nine digits after the point"
)]
pub struct NotDollars(String);

impl Dollars {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many cents.
    #[must_use]
    pub const fn from_cents(cents: u64) -> Self {
        Self(cents.saturating_mul(NANOS / 100))
    }

    /// The amount in billionths of a dollar.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The sum of two amounts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left after taking `other` away; nothing, if that is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// As a person writes it: `$0.00`, `$12.50`, `$0.001305`.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0 % NANOS);
        let fraction = digits.trim_end_matches('0');
        write!(f, "${}.{fraction:0<2}", self.0 / NANOS)
    }
}

impl FromStr for Dollars {
    type Err = NotDollars;

    fn from_str(text: &str) -> Result<Self, NotDollars> {
        let refused = || NotDollars(text.to_owned());
        let plain = text.strip_prefix('$').unwrap_or(text);
        let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 || plain.ends_with('.') {
            return Err(refused());
        }
        let dollars: u64 = whole.parse().map_err(|_| refused())?;
        let nanos: u64 = format!("{fraction:0<9}").parse().map_err(|_| refused())?;
        dollars.checked_mul(NANOS).and_then(|sum| sum.checked_add(nanos)).map(Self).ok_or_else(refused)
    }
}

/// From a number in a configuration; what is beyond a billionth is rounded.
impl TryFrom<f64> for Dollars {
    type Error = NotDollars;

    fn try_from(number: f64) -> Result<Self, NotDollars> {
        if !number.is_finite() || number < 0.0 {
            return Err(NotDollars(number.to_string()));
        }
        // By way of the decimal digits: 0.1 is meant as a tenth, whatever its binary neighbour is.
        format!("{number:.9}").parse().map_err(|_| NotDollars(number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_as_people_do() {
        for (text, nanos, shown) in [
            ("0", 0, "$0.00"),
            ("$12.5", 12_500_000_000, "$12.50"),
            ("3", 3_000_000_000, "$3.00"),
            ("0.000000001", 1, "$0.000000001"),
            ("0.001305", 1_305_000, "$0.001305"),
            ("18446744073.709551615", u64::MAX, "$18446744073.709551615"),
        ] {
            let dollars: Dollars = text.parse().unwrap();
            assert_eq!((dollars.nanos(), dollars.to_string().as_str()), (nanos, shown), "{text}");
        }
        for wrong in ["", "$", ".5", "5.", "-1", "+1", "1e3", "1,5", "0.0000000001", "18446744073.709551616", "NaN"] {
            assert!(wrong.parse::<Dollars>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn numbers_of_a_configuration_are_taken_as_they_are_written() {
        for (number, nanos) in [(0.0, 0), (0.1, 100_000_000), (2.5, 2_500_000_000), (1e-9, 1), (1e6, 1_000_000 * NANOS)]
        {
            assert_eq!(Dollars::try_from(number).unwrap().nanos(), nanos, "{number}");
        }
        for wrong in [-0.01, f64::NAN, f64::INFINITY, 1e11] {
            assert!(Dollars::try_from(wrong).is_err(), "{wrong}");
        }
    }
}
