//! Result table: a row for each metric, a column for each system, and the target.

use std::collections::HashMap;
use std::fmt;

/// Metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum GatewayMetric {
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

/// How a number is compared with the direct upstream.
#[derive(Clone, Copy)]
enum Comparison {
    Added,
    Ratio,
    Nothing,
}

const METRIC_ROWS: [(GatewayMetric, &str, &str, Comparison, &str); 12] = [
    (GatewayMetric::First, "first event, p50", "ms", Comparison::Added, "+0.5"),
    (GatewayMetric::FirstSlow, "first event, p99", "ms", Comparison::Added, ""),
    (GatewayMetric::FloodOne, "events a second, 1 stream", "", Comparison::Ratio, ""),
    (GatewayMetric::FloodMany, "events a second, 64 streams", "", Comparison::Ratio, "150000"),
    (GatewayMetric::PacedFirst, "first event, 64 paced streams, p50", "ms", Comparison::Added, "+5"),
    (GatewayMetric::PacedFirstSlow, "first event, 64 paced streams, p99", "ms", Comparison::Added, ""),
    (GatewayMetric::CpuOne, "CPU for an event, 1 stream", "µs", Comparison::Nothing, ""),
    (GatewayMetric::CpuMany, "CPU for an event, 64 streams", "µs", Comparison::Nothing, ""),
    (GatewayMetric::PacedCpu, "CPU for an event, 64 paced streams", "µs", Comparison::Nothing, ""),
    (GatewayMetric::MemoryIdle, "memory before the first request", "MiB", Comparison::Nothing, "15"),
    (GatewayMetric::MemoryPaced, "memory at its peak, 64 paced streams", "MiB", Comparison::Nothing, "15"),
    (GatewayMetric::MemoryPeak, "memory at its peak, at full speed", "MiB", Comparison::Nothing, ""),
];

#[derive(Default)]
pub(super) struct GatewayReport {
    columns: Vec<&'static str>,
    values: HashMap<(GatewayMetric, &'static str), f64>,
}

impl GatewayReport {
    /// Adds a system, from left to right; the others are compared with the first one.
    pub(super) fn column(&mut self, name: &'static str, idle: Option<f64>) {
        self.columns.push(name);
        self.value(GatewayMetric::MemoryIdle, name, idle);
    }

    pub(super) fn value(&mut self, row: GatewayMetric, name: &'static str, value: Option<f64>) {
        self.values.extend(value.map(|value| ((row, name), value)));
    }

    fn cell(&self, row: GatewayMetric, unit: &str, beside: Comparison, column: &'static str) -> String {
        let Some(value) = self.values.get(&(row, column)) else { return "-".to_owned() };
        let direct = self.columns.first().filter(|first| **first != column);
        let direct = direct.and_then(|direct| self.values.get(&(row, *direct)));
        let number = if *value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        match (beside, direct) {
            (Comparison::Added, Some(direct)) => format!("{number} {unit} ({:+.2})", value - direct),
            (Comparison::Ratio, Some(direct)) => format!("{number} {unit} (×{:.3})", value / direct),
            _ => format!("{number} {unit}"),
        }
    }
}

impl fmt::Display for GatewayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = vec!["what".to_owned()];
        head.extend(self.columns.iter().map(|&name| name.to_owned()));
        head.push("target".to_owned());
        let mut lines = vec![head];
        for (row, what, unit, beside, target) in METRIC_ROWS {
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
