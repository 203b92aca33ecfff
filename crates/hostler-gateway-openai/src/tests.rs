//! Tests of the translation: tables (reviewed as snapshots) and properties. No I/O.

mod properties;
mod requests;
mod responses;
mod streams;
