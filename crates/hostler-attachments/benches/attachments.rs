//! Benchmark of preparing large images, compared with sharp in the same run if it is available (`cargo xtask bench
//! attachments --peers`). Each measurement is its own process, so that its memory peak is separate.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "support/images.rs"]
mod images;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use hostler_attachments::{
    AttachmentBlock, AttachmentLimits, AttachmentSource, ConversationSize, ReceivedAttachment, plan_attachments,
};

const ROUNDS: usize = 7;
const SHARP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/support/sharp.mjs");

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--measure").and_then(|at| arguments.get(at + 1)) {
        Some(file) => measure(Path::new(file)),
        None => {
            compare(arguments.iter().position(|argument| argument == "--sharp").and_then(|at| arguments.get(at + 1)))
        }
    }
}

fn compare(sharp: Option<&String>) {
    let directory = tempfile::tempdir().expect("a directory");
    println!("{:<34} {:>12} {:>14} {:>12}", "", "median ms", "peak MiB more", "sent KiB");
    for (name, form, bytes) in
        [("4K screenshot, PNG", "png", images::screenshot()), ("48 MP photo, JPEG", "jpeg", images::photo())]
    {
        let file = directory.path().join(form);
        std::fs::write(&file, &bytes).expect("a file");
        println!("{name} ({} KiB)", bytes.len() >> 10);
        let this = std::env::current_exe().expect("a program");
        let ours = run(Command::new(this).arg("--measure").arg(&file));
        print("hostler", ours);
        if let Some(home) = sharp {
            let edge = AttachmentLimits::default().image_edge_pixels.to_string();
            let mut node = Command::new("node");
            node.arg(SHARP).arg(home).arg(&file).args([form, &edge, &ROUNDS.to_string()]);
            let theirs = run(&mut node);
            print("sharp", theirs);
            println!(
                "{:<34} {:>12.2} {:>14.2} {:>12.2}",
                "  hostler / sharp",
                ours[0] / theirs[0],
                ours[1] / theirs[1],
                ours[2] / theirs[2]
            );
        }
    }
}

fn print(name: &str, [time, peak, bytes]: [f64; 3]) {
    println!("  {name:<32} {time:>12.0} {peak:>14.0} {:>12.0}", bytes / 1024.0);
}

/// Milliseconds, MiB above the memory in use before, bytes.
fn run(command: &mut Command) -> [f64; 3] {
    let output = command.output().expect("a program that starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = stdout.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{stdout}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Prepares an image repeatedly, as the host does.
fn measure(file: &Path) {
    let bytes = std::fs::read(file).expect("a file");
    // Limits that allow it to be sent in its original format, which sharp writes as well.
    let limits = AttachmentLimits {
        file_bytes: usize::MAX,
        total_bytes: usize::MAX,
        image_bytes: 4 << 20,
        ..AttachmentLimits::default()
    };
    let before = status("VmRSS:");
    let mut times = Vec::new();
    let mut sent = 0;
    for _ in 0..ROUNDS {
        let item = ReceivedAttachment::new("image", AttachmentSource::Bytes(bytes.as_slice().into()));
        let start = Instant::now();
        let plan =
            plan_attachments(vec![item], &limits, ConversationSize::default()).expect("an image that can be sent");
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        sent = plan.blocks().iter().map(AttachmentBlock::content_bytes).sum();
    }
    times.sort_by(f64::total_cmp);
    println!("{} {} {sent}", times[ROUNDS / 2], (status("VmHWM:") - before) / 1024.0);
}

fn status(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
