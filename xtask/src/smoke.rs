//! `cargo xtask smoke`: sends an image from the command line to a real model.

mod red_square;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::steps::exit_code;
use crate::workspace::Workspace;

/// Which model receives the image.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Upstream that answers. Its key comes from HOSTLER_UPSTREAM_KEY, the provider's own variable or the system
    /// keyring; `scripted` needs no key and answers correctly only if it receives exactly this image.
    #[arg(long, value_parser = ["anthropic", "copilot", "openai", "scripted"])]
    upstream: String,
    /// Model id [default: the default model of the agent]
    #[arg(long)]
    model: Option<String>,
}

/// Builds the binary, sends the image with a separate state directory, and looks for the color in the response.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let built =
        workspace.cargo_command().args(["build", "--package", "hostler"]).status().context("failed to start cargo")?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    let scratch = tempfile::tempdir().context("failed to create a temporary directory")?;
    let image = red_square::red_square_png();
    std::fs::write(scratch.path().join("square.png"), &image).context("failed to write the image")?;
    let mut hostler = Command::new(workspace.hostler_binary("debug"));
    hostler.args(["run", "--attach", "square.png", "--state-dir"]).arg(scratch.path().join("state"));
    if let Some(model) = &options.model {
        hostler.args(["--model", model]);
    }
    hostler.arg("--").arg(vision_prompt(&options.upstream, &image));
    hostler.env("HOSTLER_UPSTREAM", &options.upstream).current_dir(scratch.path());
    let answered = hostler.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("failed to start hostler")?;
    let answer = String::from_utf8_lossy(&answered.stdout);
    println!("Image: a red square, {} bytes. Answer: {}", image.len(), answer.trim());
    if !answered.status.success() {
        return Ok(exit_code(answered.status));
    }
    if !mentions_red(&answer) {
        println!("Failed: the answer does not name the color, so the model may not have received the image.");
        return Ok(ExitCode::FAILURE);
    }
    println!("Passed: the model received the image.");
    Ok(ExitCode::SUCCESS)
}

/// Returns the prompt. The scripted model does not see images: its prompt contains the expected bytes.
fn vision_prompt(upstream: &str, image: &[u8]) -> String {
    match upstream {
        "scripted" => format!("!see {} red", STANDARD.encode(image)),
        _ => "What color is this square? Answer with one word.".to_owned(),
    }
}

/// Returns whether the color is a word of the response.
fn mentions_red(answer: &str) -> bool {
    answer.split(|c: char| !c.is_alphabetic()).any(|word| word.eq_ignore_ascii_case("red"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_must_be_a_whole_word() {
        assert!(mentions_red("Red.") && mentions_red("It is **red**!") && mentions_red("RED"));
        assert!(!mentions_red("") && !mentions_red("Blue") && !mentions_red("I was bored; it is not rendered."));
    }

    #[test]
    fn scripted_model_gets_the_expected_bytes() {
        assert_eq!(vision_prompt("scripted", b"png"), "!see cG5n red");
        assert!(!vision_prompt("anthropic", b"png").contains("red"), "the answer is not in the question");
    }
}
