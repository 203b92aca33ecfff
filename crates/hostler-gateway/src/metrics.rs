//! Counters for `GET /metrics`, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::request_observer::{FinishedRequest, RequestOutcome};

/// Upper bounds of the histograms' buckets, in seconds.
const BUCKET_BOUNDS_SECONDS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0];

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// By upstream, status and outcome. Upstream names come from the configuration, so there are few.
    requests: BTreeMap<(String, u16, RequestOutcome), u64>,
    /// By upstream and kind.
    tokens: BTreeMap<(String, &'static str), u64>,
    first_event: Histogram,
    duration: Histogram,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BUCKET_BOUNDS_SECONDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        for (bound, bucket) in BUCKET_BOUNDS_SECONDS.iter().zip(&mut self.buckets) {
            *bucket += u64::from(seconds <= *bound);
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn write(&self, name: &str, help: &str, text: &mut String) {
        write_metric_header(text, name, "histogram", help);
        for (bound, bucket) in BUCKET_BOUNDS_SECONDS.iter().zip(&self.buckets) {
            write_sample(text, &format!("{name}_bucket{{le=\"{bound}\"}}"), bucket);
        }
        write_sample(text, &format!("{name}_bucket{{le=\"+Inf\"}}"), self.count);
        write_sample(text, &format!("{name}_sum"), self.sum);
        write_sample(text, &format!("{name}_count"), self.count);
    }
}

impl Metrics {
    pub(crate) fn record(&self, request: &FinishedRequest) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let upstream = request.upstream.clone().unwrap_or_default();
        let status = request.status.unwrap_or_default();
        *counts.requests.entry((upstream.clone(), status, request.outcome)).or_default() += 1;
        for (kind, count) in request.tokens.by_kind() {
            if count > 0 {
                *counts.tokens.entry((upstream.clone(), kind)).or_default() += count;
            }
        }
        if let Some(first_event) = request.time_to_first_event {
            counts.first_event.observe(first_event);
        }
        counts.duration.observe(request.duration);
    }

    /// Renders all metrics.
    pub(crate) fn render(&self, in_flight: usize) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let name = "hostler_gateway_requests_in_flight";
        write_metric_header(&mut text, name, "gauge", "Requests in progress.");
        write_sample(&mut text, name, in_flight);
        let name = "hostler_gateway_requests_total";
        write_metric_header(
            &mut text,
            name,
            "counter",
            "Completed requests; status 0 if the client disconnected before a status was known.",
        );
        for ((upstream, status, ending), count) in &counts.requests {
            let labels = format!("upstream=\"{upstream}\",status=\"{status}\",ending=\"{}\"", ending.as_str());
            write_sample(&mut text, &format!("{name}{{{labels}}}"), count);
        }
        let name = "hostler_gateway_tokens_total";
        write_metric_header(&mut text, name, "counter", "Tokens reported by the upstreams.");
        for ((upstream, kind), count) in &counts.tokens {
            write_sample(&mut text, &format!("{name}{{upstream=\"{upstream}\",kind=\"{kind}\"}}"), count);
        }
        counts.first_event.write(
            "hostler_gateway_first_event_seconds",
            "Time from a request to its first event.",
            &mut text,
        );
        counts.duration.write("hostler_gateway_request_seconds", "Time from a request to its end.", &mut text);
        text
    }
}

fn write_metric_header(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_sample(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name} {value}");
}
