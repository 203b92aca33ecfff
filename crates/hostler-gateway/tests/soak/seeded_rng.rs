//! Reproducible random numbers: each request has its own generator, independent of the worker that runs it.

/// SplitMix64.
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64, ticket: u64) -> Self {
        let mut dice = Self(seed ^ ticket.wrapping_mul(0xd1b5_4a32_d192_ed03));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// One of the choices, by weight.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *choice,
            }
        }
        unreachable!("the number is below the sum")
    }
}
