//! The table: a row for each figure, a column for each system, and what was designed for.

use std::collections::HashMap;
use std::fmt;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Row {
    First,
    FirstSlow,
    FloodOne,
    FloodMany,
    PacedFirst,
    PacedFirstSlow,
    CpuOne,
    CpuMany,
    PacedCpu,
    MemoryIdle,
    MemoryPaced,
    MemoryPeak,
}

/// How a figure is compared with the direct way.
#[derive(Clone, Copy)]
enum Beside {
    Added,
    Ratio,
    Nothing,
}

const ROWS: [(Row, &str, &str, Beside, &str); 12] = [
    (Row::First, "first event, p50", "ms", Beside::Added, "+0.5"),
    (Row::FirstSlow, "first event, p99", "ms", Beside::Added, ""),
    (Row::FloodOne, "events a second, 1 stream", "", Beside::Ratio, ""),
    (Row::FloodMany, "events a second, 64 streams", "", Beside::Ratio, "150000"),
    (Row::PacedFirst, "first event, 64 paced streams, p50", "ms", Beside::Added, "+5"),
    (Row::PacedFirstSlow, "first event, 64 paced streams, p99", "ms", Beside::Added, ""),
    (Row::CpuOne, "CPU for an event, 1 stream", "µs", Beside::Nothing, ""),
    (Row::CpuMany, "CPU for an event, 64 streams", "µs", Beside::Nothing, ""),
    (Row::PacedCpu, "CPU for an event, 64 paced streams", "µs", Beside::Nothing, ""),
    (Row::MemoryIdle, "memory before the first request", "MiB", Beside::Nothing, "15"),
    (Row::MemoryPaced, "memory at its peak, 64 paced streams", "MiB", Beside::Nothing, "15"),
    (Row::MemoryPeak, "memory at its peak, at full speed", "MiB", Beside::Nothing, ""),
];

#[derive(Default)]
pub(super) struct Report {
    columns: Vec<&'static str>,
    values: HashMap<(Row, &'static str), f64>,
}

impl Report {
    /// A system, from left to right; the first one is what the others are compared with.
    pub(super) fn column(&mut self, name: &'static str, idle: Option<f64>) {
        self.columns.push(name);
        self.value(Row::MemoryIdle, name, idle);
    }

    pub(super) fn value(&mut self, row: Row, name: &'static str, value: Option<f64>) {
        self.values.extend(value.map(|value| ((row, name), value)));
    }

    fn cell(&self, row: Row, unit: &str, beside: Beside, column: &'static str) -> String {
        let Some(value) = self.values.get(&(row, column)) else { return "-".to_owned() };
        let direct = self.columns.first().filter(|first| **first != column);
        let direct = direct.and_then(|direct| self.values.get(&(row, *direct)));
        let number = if *value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        match (beside, direct) {
            (Beside::Added, Some(direct)) => format!("{number} {unit} ({:+.2})", value - direct),
            (Beside::Ratio, Some(direct)) => format!("{number} {unit} (×{:.3})", value / direct),
            _ => format!("{number} {unit}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = vec!["what".to_owned()];
        head.extend(self.columns.iter().map(|&name| name.to_owned()));
        head.push("target".to_owned());
        let mut lines = vec![head];
        for (row, what, unit, beside, target) in ROWS {
            let mut line = vec![what.to_owned()];
            line.extend(self.columns.iter().map(|column| self.cell(row, unit, beside, column)));
            line.push(target.to_owned());
            lines.push(line);
        }
        let mut widths = vec![0; self.columns.len() + 2];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in lines {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
