//! Tests of the ledger and its file, including damaged files and full disks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use jiff::ToSpan;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::dollars::Dollars;

fn totals(number: u64) -> UsageTotals {
    UsageTotals {
        requests: 1,
        input_tokens: number,
        output_tokens: 2 * number,
        cache_read_tokens: 3 * number,
        cache_write_tokens: 4 * number,
        dollars: Dollars::from_nanos(5 * number),
        unpriced_tokens: 6 * number,
    }
}

fn times(count: u64, change: &UsageTotals) -> UsageTotals {
    let mut sum = UsageTotals::default();
    (0..count).for_each(|_| sum.add(change));
    sum
}

fn named(session: &str) -> AccountKey {
    AccountKey { session: session.into(), is_unregistered: false }
}

fn open(dir: &TempDir) -> Ledger {
    Ledger::open(options(dir)).unwrap()
}

fn options(dir: &TempDir) -> LedgerOptions {
    LedgerOptions { retry_delay: Duration::from_millis(5), ..LedgerOptions::new(Some(dir.path().to_owned())) }
}

/// A clock with a settable time.
fn clock(time: &Arc<Mutex<Timestamp>>) -> TimestampSource {
    let time = Arc::clone(time);
    Arc::new(move || *time.lock().unwrap())
}

fn text(dir: &TempDir) -> String {
    fs::read_to_string(ledger_path(dir.path())).unwrap()
}

#[test]
fn totals_survive_a_restart() {
    let dir = TempDir::new().unwrap();
    let ledger = open(&dir);
    ledger.add(&named("one"), &totals(1));
    assert_eq!(ledger.add(&named("one"), &totals(1)), times(2, &totals(1)));
    ledger.add(&named("two"), &totals(7));
    drop(ledger);

    let ledger = open(&dir);
    assert_eq!(ledger.session_totals("one"), times(2, &totals(1)));
    assert_eq!(ledger.session_totals("two"), totals(7));
    assert_eq!(ledger.session_totals("three"), UsageTotals::default());
    assert_eq!(ledger.totals_today().requests, 3);
}

#[test]
fn without_a_directory_totals_are_in_memory() {
    let ledger = Ledger::open(LedgerOptions::new(None)).unwrap();
    ledger.add(&named("one"), &totals(3));
    assert_eq!((ledger.session_totals("one"), ledger.totals_today()), (totals(3), totals(3)));
    assert!(ledger.shared.lock().unwritten.sessions.is_empty());
}

#[test]
fn deleting_a_session_retains_the_totals_of_the_day() {
    let dir = TempDir::new().unwrap();
    let ledger = open(&dir);
    ledger.add(&named("one"), &totals(1));
    ledger.delete_session("one");
    ledger.add_to_day(&totals(1));
    drop(ledger);
    for _ in 0..2 {
        let ledger = open(&dir);
        assert_eq!(ledger.session_totals("one"), UsageTotals::default());
        assert_eq!(ledger.totals_today(), times(2, &totals(1)));
    }
    assert!(!text(&dir).contains("one"));
}

#[test]
fn the_file_is_readable_by_its_owner_only() {
    let dir = TempDir::new().unwrap();
    for _ in 0..2 {
        open(&dir).add(&named("one"), &totals(1));
        for file in fs::read_dir(dir.path()).unwrap() {
            let file = file.unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
        }
    }
}

#[test]
fn a_directory_is_locked_by_one_ledger() {
    let dir = TempDir::new().unwrap();
    let first = open(&dir);
    let refused = Ledger::open(options(&dir)).unwrap_err();
    assert!(matches!(&refused, LedgerError::Locked(path) if path == dir.path()), "{refused}");
    assert!(refused.to_string().contains("another gateway"));
    drop(first);
    open(&dir);
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    let dir = TempDir::new().unwrap();
    open(&dir).add(&named("one"), &totals(1));
    let whole = text(&dir);
    let line = r#"{"session":"one","requests":77,"input":1}"#;
    for cut in 0..line.len() {
        fs::write(ledger_path(dir.path()), format!("{whole}{}", line.get(..cut).unwrap())).unwrap();
        let ledger = open(&dir);
        assert_eq!(ledger.session_totals("one"), totals(1), "cut at {cut}");
        ledger.add(&named("two"), &totals(2));
        drop(ledger);
        assert_eq!(open(&dir).session_totals("two"), totals(2), "cut at {cut}");
    }
}

#[test]
fn damaged_lines_are_skipped() {
    let dir = TempDir::new().unwrap();
    open(&dir).add(&named("one"), &totals(1));
    let mut damaged = text(&dir).into_bytes();
    damaged.extend_from_slice(b"\0\0\0\0\n\xff\xfe\n[]\n{}\n{\"session\":5}\n{\"day\":\"never\"}\n\n");
    damaged.extend_from_slice(format!("{{\"session\":\"{}\"}}\n", "x".repeat(200_000)).as_bytes());
    damaged.extend_from_slice(b"{\"session\":\"late\",\"requests\":4,\"added\":{\"later\":true}}\n");
    fs::write(ledger_path(dir.path()), damaged).unwrap();
    let ledger = open(&dir);
    assert_eq!(ledger.session_totals("one"), totals(1));
    assert_eq!(ledger.session_totals("late").requests, 4);
    assert_eq!(ledger.shared.lock().rows.sessions.len(), 2);
}

#[test]
fn a_file_of_a_later_version_is_not_changed() {
    let dir = TempDir::new().unwrap();
    let later = "{\"hostlerLedger\":2}\n{\"session\":\"one\",\"requests\":4}\n";
    fs::write(ledger_path(dir.path()), later).unwrap();
    let refused = Ledger::open(options(&dir)).unwrap_err();
    assert!(matches!(refused, LedgerError::TooNew(_)), "{refused}");
    assert_eq!(text(&dir), later);
}

#[test]
fn old_days_and_unregistered_sessions_expire_and_registered_sessions_do_not() {
    let dir = TempDir::new().unwrap();
    let time = Arc::new(Mutex::new("2026-01-31T23:59:59Z".parse::<Timestamp>().unwrap()));
    let ledger = Ledger::open(LedgerOptions { clock: clock(&time), ..options(&dir) }).unwrap();
    let guest = AccountKey { session: "guest".into(), is_unregistered: true };
    ledger.add(&guest, &totals(1));
    ledger.add(&named("session"), &totals(1));
    assert_eq!(ledger.time_until_tomorrow(), Duration::from_secs(1));
    let pass = |days: i64| {
        let mut time = time.lock().unwrap();
        *time = time.checked_add((24 * days).hours()).unwrap();
    };
    pass(62);
    ledger.add(&named("session"), &totals(1));
    assert_eq!(ledger.shared.lock().rows.days.len(), 2);
    assert_eq!(ledger.session_totals("guest"), totals(1));
    assert_eq!(ledger.totals_today(), totals(1));
    pass(1);
    ledger.add(&named("session"), &totals(1));
    assert_eq!(ledger.shared.lock().rows.days.len(), 2);
    assert_eq!(ledger.session_totals("guest"), UsageTotals::default());
    drop(ledger);
    pass(1_000);
    let ledger = Ledger::open(LedgerOptions { clock: clock(&time), ..options(&dir) }).unwrap();
    assert!(ledger.shared.lock().rows.days.is_empty());
    assert_eq!(ledger.session_totals("session"), times(3, &totals(1)));
}

#[test]
fn unregistered_sessions_over_the_limit_share_a_row() {
    let ledger = Ledger::open(LedgerOptions::new(None)).unwrap();
    for number in 0..MAX_UNREGISTERED_SESSIONS + 5 {
        let session = ledger.unregistered_session_name(&number.to_string());
        ledger.add(&AccountKey { session, is_unregistered: true }, &totals(1));
    }
    assert_eq!(&*ledger.unregistered_session_name("7"), "7");
    assert_eq!(ledger.session_totals(OVERFLOW_SESSION).requests, 5);
    assert_eq!(ledger.shared.lock().rows.sessions.len(), MAX_UNREGISTERED_SESSIONS + 1);
    let other = Ledger::open(LedgerOptions::new(None)).unwrap();
    assert_eq!(&*other.unregistered_session_name(&"x".repeat(257)), OVERFLOW_SESSION);
}

#[test]
fn the_file_is_compacted_when_it_grows() {
    let dir = TempDir::new().unwrap();
    let ledger = Ledger::open(LedgerOptions { compaction_growth_bytes: 2_000, ..options(&dir) }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..200 {
        ledger.add(&named("one"), &totals(1));
        runtime.block_on(ledger.wait_until_written());
        assert!(text(&dir).len() < 4_000);
    }
    drop(ledger);
    assert_eq!(open(&dir).session_totals("one"), times(200, &totals(1)));
}

#[tokio::test]
async fn a_full_disk_delays_writes_and_not_counting() {
    let dir = TempDir::new().unwrap();
    let ledger = open(&dir);
    // Writes to this device fail as on a full disk.
    symlink("/dev/full", ledger_path(dir.path())).unwrap();
    let mut written = ledger.shared.write_progress.subscribe();
    for failures in 1..=3 {
        ledger.add(&named("one"), &totals(1));
        written.wait_for(|written| written.failures >= failures).await.unwrap();
    }
    assert_eq!(ledger.session_totals("one"), times(3, &totals(1)));
    assert_eq!(written.borrow().version, 0);
    fs::remove_file(ledger_path(dir.path())).unwrap();
    ledger.wait_until_written().await;
    drop(ledger);
    assert_eq!(open(&dir).session_totals("one"), times(3, &totals(1)));
}

#[test]
fn a_ledger_on_a_full_disk_can_be_closed() {
    let dir = TempDir::new().unwrap();
    let ledger = open(&dir);
    symlink("/dev/full", ledger_path(dir.path())).unwrap();
    ledger.add(&named("one"), &totals(1));
    ledger.close();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(ledger.wait_until_written());
    assert!(!ledger.is_open());
}

#[test]
fn a_line_after_an_incomplete_line_is_readable() {
    let dir = TempDir::new().unwrap();
    let path = ledger_path(dir.path());
    let lines = |session: &str, number| {
        let mut lines = file::LedgerLines::default();
        lines.push_session(session, Some(&SessionRow { totals: totals(number), ..SessionRow::default() })).unwrap();
        lines
    };
    let (mut file, _) = LedgerFile::open(dir.path(), 1_000_000).unwrap();
    file.append(&lines("one", 1)).unwrap();
    // The disk fills up: half a line is written, and the rest fails.
    let whole = fs::read(&path).unwrap();
    file.reopen_at_next_write();
    fs::remove_file(&path).unwrap();
    symlink("/dev/full", &path).unwrap();
    file.append(&lines("two", 2)).unwrap_err();
    fs::remove_file(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"session\":\"tw"].concat()).unwrap();
    file.append(&lines("two", 2)).unwrap();
    drop(file);
    let ledger = open(&dir);
    assert_eq!((ledger.session_totals("one"), ledger.session_totals("two")), (totals(1), totals(2)));
}

/// Operations on a ledger.
#[derive(Debug, Clone)]
enum Step {
    Add(u8, u64),
    Forget(u8),
    NextDay,
    Restart,
    /// The process dies during a write.
    Tear(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_u8, 0..1_000_u64).prop_map(|(session, number)| Step::Add(session, number)),
        1 => (0..4_u8).prop_map(Step::Forget),
        1 => Just(Step::NextDay),
        1 => Just(Step::Restart),
        1 => (0..40_usize).prop_map(Step::Tear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn totals_are_the_sum_of_all_changes_after_any_operations(steps in prop::collection::vec(step(), 1..60)) {
        let dir = TempDir::new().unwrap();
        let time = Arc::new(Mutex::new("2026-06-01T12:00:00Z".parse::<Timestamp>().unwrap()));
        let reopen = || Ledger::open(LedgerOptions { clock: clock(&time), compaction_growth_bytes: 1_500, ..options(&dir) }).unwrap();
        let mut ledger = reopen();
        let mut sessions: HashMap<String, UsageTotals> = HashMap::new();
        let mut today = UsageTotals::default();
        for step in steps {
            match step {
                Step::Add(session, number) => {
                    let session = format!("session {session}");
                    let expected = sessions.entry(session.clone()).or_default();
                    expected.add(&totals(number));
                    today.add(&totals(number));
                    prop_assert_eq!(ledger.add(&named(&session), &totals(number)), *expected);
                }
                Step::Forget(session) => {
                    let session = format!("session {session}");
                    sessions.remove(&session);
                    ledger.delete_session(&session);
                }
                Step::NextDay => {
                    let mut time = time.lock().unwrap();
                    *time = time.checked_add(24.hours()).unwrap();
                    today = UsageTotals::default();
                }
                Step::Restart => {
                    drop(ledger);
                    ledger = reopen();
                }
                Step::Tear(length) => {
                    drop(ledger);
                    let path = ledger_path(dir.path());
                    if let Ok(mut bytes) = fs::read(&path) {
                        let line = br#"{"session":"session 1","requests":999999,"input":5}"#;
                        bytes.extend_from_slice(&line[..length]);
                        fs::write(&path, bytes).unwrap();
                    }
                    ledger = reopen();
                }
            }
            prop_assert_eq!(ledger.totals_today(), today);
        }
        drop(ledger);
        let ledger = reopen();
        prop_assert_eq!(ledger.totals_today(), today);
        let stored: HashMap<String, UsageTotals> =
            ledger.shared.lock().rows.sessions.iter().map(|(name, row)| (name.to_string(), row.totals)).collect();
        prop_assert_eq!(stored, sessions);
    }
}

#[test]
fn concurrent_changes_are_all_counted() {
    let dir = TempDir::new().unwrap();
    let ledger = Ledger::open(LedgerOptions { compaction_growth_bytes: 2_000, ..options(&dir) }).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for _ in 0..500 {
                    ledger.add(&named("shared"), &totals(1));
                    ledger.add(&named(&format!("thread {thread}")), &totals(2));
                }
            });
        }
    });
    drop(ledger);
    let ledger = open(&dir);
    assert_eq!(ledger.session_totals("shared"), times(2_000, &totals(1)));
    assert_eq!(ledger.session_totals("thread 3"), times(500, &totals(2)));
    assert_eq!(ledger.totals_today().requests, 4_000);
}

#[test]
fn former_field_names_are_read_and_replaced() {
    let dir = TempDir::new().unwrap();
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let lines = [
        r#"{"hostlerLedger":1}"#.to_owned(),
        r#"{"session":"deleted","requests":1}"#.to_owned(),
        r#"{"session":"deleted","forgotten":true}"#.to_owned(),
        format!(r#"{{"session":"unregistered","guest":true,"last":"{today}","requests":3,"input":4}}"#),
    ];
    fs::write(ledger_path(dir.path()), lines.join("\n") + "\n").unwrap();

    let ledger = open(&dir);
    assert_eq!(ledger.session_totals("deleted"), UsageTotals::default());
    let expected = UsageTotals { requests: 3, input_tokens: 4, ..UsageTotals::default() };
    assert_eq!(ledger.session_totals("unregistered"), expected);
    {
        let state = ledger.shared.lock();
        let row = &state.rows.sessions["unregistered"];
        assert_eq!((row.is_unregistered, row.last_used), (true, today));
    }
    let written = text(&dir);
    assert!(written.contains(r#""unregistered":true"#), "{written}");
    assert!(written.contains(&format!(r#""lastUsed":"{today}""#)), "{written}");
    assert!(!written.contains("guest") && !written.contains("forgotten"), "{written}");
}
