//! The translation as tables (reviewed as snapshots) and as properties. No I/O.

mod properties;
mod requests;
mod responses;
mod streams;
