//! Sees to it that a page that is built later is noticed: Cargo looks at a directory only if there is one.

fn main() {
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist");
    // Where the sources cannot be written the page is either there or will never be.
    let _ = std::fs::create_dir_all(dist);
    println!("cargo::rerun-if-changed={dist}");
}
