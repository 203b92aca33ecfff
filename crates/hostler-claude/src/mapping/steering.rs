use hostler_driver::{DriverEvent, Steer, SteerId};

/// How many receipts for late words may wait to be told.
const MAX_LATE: usize = 256;

/// A person's words that wait for a way into the running turn.
#[derive(Debug, Default)]
pub(super) struct Steering {
    held: Option<Steer>,
    /// Words that came when there was no turn that they could go into.
    late: Vec<SteerId>,
}

impl Steering {
    pub(super) fn hold(&mut self, steer: Steer, busy: bool) {
        if busy {
            self.held = Some(steer);
        } else {
            self.late.push(steer.id);
            // Whoever floods us with words that nobody can take is told of the latest ones.
            let surplus = self.late.len().saturating_sub(MAX_LATE);
            self.late.drain(..surplus);
        }
    }

    pub(super) fn take_back(&mut self, id: &SteerId) -> bool {
        self.held.take_if(|held| held.id == *id).is_some()
    }

    /// The words, for the model. From here on they are neither held nor given up.
    pub(super) fn inject(&mut self) -> Option<Steer> {
        self.held.take_if(|held| held.fits())
    }

    /// Nothing that is held will be told any more.
    pub(super) fn give_up(&mut self) -> Vec<DriverEvent> {
        let held = self.held.take().map(|steer| steer.id);
        self.late.drain(..).chain(held).map(DriverEvent::SteerUndelivered).collect()
    }

    /// What came too late.
    pub(super) fn late(&mut self) -> Vec<DriverEvent> {
        self.late.drain(..).map(DriverEvent::SteerUndelivered).collect()
    }
}
