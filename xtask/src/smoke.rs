//! `cargo xtask smoke`: sends an image from the command line to a real model.

mod red_square;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::steps::exit_code;
use crate::workspace::Workspace;

/// Which model looks at the picture.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Who answers: the key comes from HOSTLER_UPSTREAM_KEY, the provider's usual variable or the system keyring. `scripted`
    /// needs none, and says the right word only if the very picture arrived.
    #[arg(long, value_parser = ["anthropic", "copilot", "openai", "scripted"])]
    upstream: String,
    /// The model's id [default: the agent's usual one]
    #[arg(long)]
    model: Option<String>,
}

/// Builds the binary, sends the image with a separate state directory, and looks for the color in the response.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let built = workspace
        .cargo_command()
        .args(["build", "--package", "hostler"])
        .status()
        .context("cargo could not be started")?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    let scratch = tempfile::tempdir().context("there is no place for the picture")?;
    let picture = red_square::red_square_png();
    std::fs::write(scratch.path().join("square.png"), &picture).context("the picture could not be written")?;
    let mut hostler = Command::new(workspace.hostler_binary("debug"));
    hostler.args(["run", "--attach", "square.png", "--state-dir"]).arg(scratch.path().join("state"));
    if let Some(model) = &options.model {
        hostler.args(["--model", model]);
    }
    hostler.arg("--").arg(vision_prompt(&options.upstream, &picture));
    hostler.env("HOSTLER_UPSTREAM", &options.upstream).current_dir(scratch.path());
    let answered =
        hostler.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("hostler could not be started")?;
    let answer = String::from_utf8_lossy(&answered.stdout);
    println!("The picture: a red square, {} bytes. The answer: {}", picture.len(), answer.trim());
    if !answered.status.success() {
        return Ok(exit_code(answered.status));
    }
    if !mentions_red(&answer) {
        println!("The colour is not in it: the picture did not arrive, or the model did not look.");
        return Ok(ExitCode::FAILURE);
    }
    println!("The model saw it.");
    Ok(ExitCode::SUCCESS)
}

/// Returns the prompt. The scripted model does not see images: its prompt contains the expected bytes.
fn vision_prompt(upstream: &str, picture: &[u8]) -> String {
    match upstream {
        "scripted" => format!("!see {} red", STANDARD.encode(picture)),
        _ => "What colour is this square? Answer with one word.".to_owned(),
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
