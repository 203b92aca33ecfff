//! Benchmark measurements and their table: each number beside its baseline.

use std::fmt;

/// One measurement.
#[derive(Debug, Clone)]
pub struct BenchmarkRow {
    /// Metric.
    pub metric: String,
    /// Unit of all numbers in the row: `ms`, `MiB`.
    pub unit: &'static str,
    /// Hostler's number.
    pub hostler: f64,
    /// Name and number of the baseline: without Hostler, or a peer.
    pub baseline: Option<(String, f64)>,
    /// Design target.
    pub target: Option<f64>,
}

/// Measurements.
#[derive(Debug, Clone, Default)]
pub struct BenchmarkTable {
    /// Rows from top to bottom.
    pub rows: Vec<BenchmarkRow>,
}

/// Returns the median.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Returns the value that `percent` of the numbers do not exceed; 0 for none.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

const COLUMN_NAMES: [&str; 5] = ["what", "hostler", "beside", "ratio", "target"];

impl BenchmarkRow {
    fn cells(&self) -> [String; 5] {
        let number = |value: f64| format!("{value:.2} {}", self.unit);
        let beside = self.baseline.as_ref().map(|(name, value)| format!("{} ({name})", number(*value)));
        let ratio = self.baseline.as_ref().filter(|(_, value)| *value > 0.0);
        let ratio = ratio.map(|(_, value)| format!("{:.2}", self.hostler / value));
        let none = || "-".to_owned();
        [
            self.metric.clone(),
            number(self.hostler),
            beside.unwrap_or_else(none),
            ratio.unwrap_or_else(none),
            self.target.map_or_else(none, |target| format!("≤ {}", number(target))),
        ]
    }
}

impl fmt::Display for BenchmarkTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![COLUMN_NAMES.map(str::to_owned)];
        lines.extend(self.rows.iter().map(BenchmarkRow::cells));
        let mut widths = [0; COLUMN_NAMES.len()];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in lines {
            let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_prints_the_ratio_to_the_baseline() {
        let table = BenchmarkTable {
            rows: vec![
                BenchmarkRow {
                    metric: "first delta, warm".into(),
                    unit: "ms",
                    hostler: 33.0,
                    baseline: Some(("direct".into(), 30.0)),
                    target: Some(33.0),
                },
                BenchmarkRow { metric: "idle memory".into(), unit: "MiB", hostler: 14.5, baseline: None, target: None },
            ],
        };
        let expected = "\
what               hostler    beside             ratio  target
first delta, warm  33.00 ms   30.00 ms (direct)  1.10   ≤ 33.00 ms
idle memory        14.50 MiB  -                  -      -
";
        assert_eq!(table.to_string(), expected);
    }
}
