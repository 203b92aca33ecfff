//! Plan of a run: derived from its seed before the run starts.

use std::time::Duration;

/// Deterministic pseudorandom numbers.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.below(2);
        dice
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// Agent of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Fake,
    /// Build of the real agent.
    Real(&'static str),
}

/// Fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    HostKilled,
    AgentKilled,
    SupervisorKilled,
    /// The connections between the agent and the gateway are cut.
    GatewayCut,
    DiskFull,
    DiskSlow,
    /// The host's stdin ends, which stops it.
    StdinEnds,
    /// Invalid lines between the agent's own.
    Malformed,
    /// Both clients lose their connections at once.
    ClientsCut,
}

const FAULTS: [Fault; 9] = [
    // Twice as often as the others, because it is most likely to lose data.
    Fault::HostKilled,
    Fault::HostKilled,
    Fault::AgentKilled,
    Fault::SupervisorKilled,
    Fault::DiskFull,
    Fault::DiskSlow,
    Fault::StdinEnds,
    Fault::Malformed,
    Fault::ClientsCut,
];

/// The fake agent does not call any model.
const FAULTS_OF_REAL_AGENTS: [Fault; 10] = [
    Fault::HostKilled,
    Fault::HostKilled,
    Fault::AgentKilled,
    Fault::SupervisorKilled,
    Fault::GatewayCut,
    Fault::DiskFull,
    Fault::DiskSlow,
    Fault::StdinEnds,
    Fault::Malformed,
    Fault::ClientsCut,
];

/// Client step. The first number selects one of the two clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientStep {
    SendMessage(usize, String),
    Queue(usize, String),
    Steer(usize, String),
    Cancel(usize),
    /// Removes a queued message.
    Unqueue(usize),
    Resume(usize),
    Leave(usize),
    Return(usize),
}

/// Steps and fault of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) agent: Agent,
    pub(crate) fault: Fault,
    /// First message; it starts the session.
    pub(crate) first_prompt: String,
    /// Steps, each after a pause.
    pub(crate) steps: Vec<(Duration, ClientStep)>,
    /// The fault occurs this long after this many steps.
    pub(crate) fault_after: (usize, Duration),
    /// Duration of a fault that ends.
    pub(crate) fault_duration: Duration,
    /// Whether the host is killed in the end, instead of stopped.
    pub(crate) is_host_killed: bool,
    /// Whether the next host starts after the last process of this one has ended.
    pub(crate) waits_for_processes: bool,
    /// For decisions during the run.
    pub(crate) random: SeededRandom,
}

impl RunPlan {
    pub(crate) fn from_seed(seed: u64, agent: Agent) -> Self {
        let mut random = SeededRandom::new(seed);
        let (fault, unit) = match agent {
            Agent::Fake => (random.pick(&FAULTS), 1),
            // It takes longer to start and to stop.
            Agent::Real(_) => (random.pick(&FAULTS_OF_REAL_AGENTS), 12),
        };
        let first_prompt = prompt(&mut random, agent);
        let count = usize::try_from(3 + random.below(8)).unwrap();
        let mut steps = Vec::new();
        for _ in 0..count {
            let silence = if random.one_in(4) { 0 } else { random.below(40 * unit) };
            let step = step(&mut random, agent);
            steps.push((Duration::from_millis(silence), step));
        }
        let fault_at = usize::try_from(random.below(count as u64 + 1)).unwrap();
        let fault_after = (fault_at, Duration::from_millis(random.below(120 * unit)));
        let fault_duration = Duration::from_millis(100 + random.below(700));
        let (is_host_killed, waits_for_processes) = (random.one_in(2), random.one_in(2));
        Self {
            agent,
            fault,
            first_prompt,
            steps,
            fault_after,
            fault_duration,
            is_host_killed,
            waits_for_processes,
            random,
        }
    }
}

fn step(dice: &mut SeededRandom, agent: Agent) -> ClientStep {
    let who = usize::from(dice.one_in(3));
    match dice.below(16) {
        0..=2 => ClientStep::SendMessage(who, prompt(dice, agent)),
        3..=6 => ClientStep::Queue(who, prompt(dice, agent)),
        7..=9 => ClientStep::Steer(who, prompt(dice, agent)),
        10 | 11 => ClientStep::Cancel(who),
        12 => ClientStep::Unqueue(who),
        13 => ClientStep::Resume(who),
        14 => ClientStep::Leave(who),
        _ => ClientStep::Return(who),
    }
}

/// Returns a prompt for the agent; its tag is appended later.
fn prompt(dice: &mut SeededRandom, agent: Agent) -> String {
    match agent {
        Agent::Fake => fake_prompt(dice),
        Agent::Real(_) => real_prompt(dice),
    }
}

fn fake_prompt(dice: &mut SeededRandom) -> String {
    let number = dice.below(60) + 1;
    match dice.below(24) {
        0..=3 => "slow".to_owned(),
        4..=7 => format!("pause 3 deltas {number}"),
        8 => format!("deltas {}", number * 40),
        9 | 10 => "tool".to_owned(),
        11 | 12 => format!("tools {}", dice.below(4) + 2),
        13 => "subtool".to_owned(),
        14 => "garbage".to_owned(),
        15 => "fork slow".to_owned(),
        16 => format!("background {}", number * 3),
        17 => "twice".to_owned(),
        18 => "die 3".to_owned(),
        19 => "vanish".to_owned(),
        20 => "error 500".to_owned(),
        21 if dice.one_in(3) => "stubborn slow".to_owned(),
        _ => "hello".to_owned(),
    }
}

fn real_prompt(dice: &mut SeededRandom) -> String {
    let number = dice.below(200) + 20;
    match dice.below(8) {
        0 | 1 => format!("!pace 5\n!deltas {number}"),
        2 => "!say begun\n!hang".to_owned(),
        3 | 4 => "!tool Bash {\"command\":\"touch made\",\"description\":\"makes a file\"}\n!say done".to_owned(),
        5 => {
            "!tool Bash {\"command\":\"sleep 0.3; touch made\",\"description\":\"takes a while\"}\n!say done".to_owned()
        }
        6 => "!think hmm\n!say thought about it".to_owned(),
        _ => "hello".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_deterministic_and_cover_all_faults() {
        let deal = |seed| format!("{:?}", RunPlan::from_seed(seed, Agent::Fake));
        assert_eq!(deal(7), deal(7));
        assert_ne!(deal(7), deal(8));
        let dealt: std::collections::BTreeSet<Fault> =
            (0..300).map(|seed| RunPlan::from_seed(seed, Agent::Real("native")).fault).collect();
        assert_eq!(dealt.len(), 9, "{dealt:?}");
    }
}
