//! Creates the page's output directory, so that Cargo notices a page that is built later: it watches existing
//! directories only.

fn main() {
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist");
    // In a read-only source tree the page either exists already or is never built.
    let _ = std::fs::create_dir_all(dist);
    println!("cargo::rerun-if-changed={dist}");
}
