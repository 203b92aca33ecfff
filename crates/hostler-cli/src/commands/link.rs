//! `hostler link`: creates a sign-in link for a browser, and lists and signs out browsers.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::Serialize;

use crate::Io;
use crate::args::LinkArgs;
use crate::client::{Client, SignedInBrowser};
use crate::console::{Console, TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::host::{self, PageLink};
use crate::settings::Settings;

/// JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreatedLink<'a> {
    url: &'a str,
    expires_at: &'a str,
}

/// Runs `hostler link`.
pub(crate) async fn run_link_command(
    args: &LinkArgs,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let (endpoint, client, events) = io.signals.run_or_interrupt(host::connect_to_running(settings)).await??;
    drop(events);
    let base = settings.public_url.clone().or(endpoint.page_url.clone());
    let base = base.unwrap_or_else(|| format!("http://{}", endpoint.addr()));
    let result = io.signals.run_or_interrupt(execute(args, settings, base, &client, &mut io.console)).await;
    client.close().await;
    result?.map(|()| Exit::Done)
}

async fn execute(
    args: &LinkArgs,
    settings: &Settings,
    base: String,
    client: &Client,
    console: &mut Console,
) -> Result<(), CommandFailure> {
    if args.list {
        return print_browsers(&client.list_signed_in_browsers().await?, settings.json, console);
    }
    if args.revoke_all {
        let count = client.sign_out_browsers(None).await?;
        let browsers = if count == 1 { "browser" } else { "browsers" };
        console.write_note(&format!("Signed out: {count} {browsers}."), TextStyle::Plain);
        return Ok(());
    }
    if let Some(name) = &args.revoke {
        let all = client.list_signed_in_browsers().await?;
        let browser = find_browser(&all, name)?;
        client.sign_out_browsers(Some(&browser.id)).await?;
        console.write_note(&format!("Signed out: {}.", to_one_line(&browser.label)), TextStyle::Plain);
        return Ok(());
    }
    create_link(args, settings, base, client, console).await
}

async fn create_link(
    args: &LinkArgs,
    settings: &Settings,
    base: String,
    client: &Client,
    console: &mut Console,
) -> Result<(), CommandFailure> {
    let created = client.create_link(args.minutes, args.label.as_deref()).await?;
    let is_local_only = is_loopback(&base);
    let url = PageLink { base, code: Some(created.code) }.url_for("");
    if settings.json {
        let text = serde_json::to_string_pretty(&CreatedLink { url: &url, expires_at: &created.expires_at });
        console.write_out(&format!("{}\n", text.map_err(std::io::Error::other)?))?;
        return Ok(());
    }
    console.write_out(&format!("{url}\n"))?;
    // A loopback address on a phone is the phone itself, so no QR code is printed for it.
    if args.qr || (console.out_is_terminal() && !args.no_qr && !is_local_only) {
        console.write_out(&format!("\n{}\n", render_qr_code(&url)?))?;
    }
    let time = match minutes_until(&created.expires_at) {
        Some(1) => "for a minute".to_owned(),
        Some(minutes) => format!("for {minutes} minutes"),
        None => format!("until {}", to_one_line(&created.expires_at)),
    };
    console.write_note(&format!("The link works once, {time}. Anyone who opens it has full access."), TextStyle::Dim);
    if is_local_only {
        let hint = "The link works on this machine only. For other devices, pass --url. See docs/web.md.";
        console.write_note(hint, TextStyle::Dim);
    }
    Ok(())
}

fn print_browsers(browsers: &[SignedInBrowser], json: bool, console: &mut Console) -> Result<(), CommandFailure> {
    if json {
        let text = serde_json::to_string_pretty(browsers).map_err(std::io::Error::other)?;
        console.write_out(&format!("{text}\n"))?;
        return Ok(());
    }
    if browsers.is_empty() {
        console.write_note("No signed-in browsers. Sign one in with `hostler link`.", TextStyle::Dim);
    }
    for SignedInBrowser { id, label, created_at, last_seen_at } in browsers {
        let (since, seen) = (to_one_line(created_at), to_one_line(last_seen_at));
        console.write_out_line(
            &format!("{}  {}  (since {since}, last seen {seen})", to_one_line(id), to_one_line(label)),
            TextStyle::Plain,
        )?;
    }
    Ok(())
}

/// Finds one browser by its id or a unique prefix of it.
fn find_browser<'a>(all: &'a [SignedInBrowser], name: &str) -> Result<&'a SignedInBrowser, CommandFailure> {
    let mut matches = all.iter().filter(|browser| !name.is_empty() && browser.id.starts_with(name));
    let name = to_one_line(name);
    match (matches.next(), matches.next()) {
        (Some(browser), None) => Ok(browser),
        (None, _) => {
            let text = format!("Browser not found: {name}. List signed-in browsers with `hostler link --list`.");
            Err(CommandFailure::new(Exit::Failed, "browserNotFound", text))
        }
        (Some(_), Some(_)) => {
            let text = format!("{name} matches several browsers. Pass a longer prefix of the id.");
            Err(CommandFailure::new(Exit::Usage, "ambiguousBrowserId", text))
        }
    }
}

/// Returns whether a URL is reachable on this machine only.
fn is_loopback(base: &str) -> bool {
    let url = url::Url::parse(base).ok();
    url.as_ref().and_then(url::Url::host).is_some_and(|host| match host {
        url::Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    })
}

/// Renders a QR code in half blocks, with the quiet zone that cameras need, for dark and light terminals.
fn render_qr_code(url: &str) -> Result<String, CommandFailure> {
    let code = QrCode::new(url).map_err(|error| {
        CommandFailure::new(Exit::Failed, "qrCodeFailed", format!("Failed to create a QR code: {error}."))
    })?;
    Ok(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

/// Returns the minutes until a time.
fn minutes_until(time: &str) -> Option<i64> {
    let remaining = time.parse::<jiff::Timestamp>().ok()?.duration_since(jiff::Timestamp::now());
    Some((remaining.as_secs() + 30) / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser(id: &str) -> SignedInBrowser {
        let time = "2026-11-16T04:00:00.000Z".to_owned();
        SignedInBrowser {
            id: id.to_owned(),
            label: "Firefox on Linux".to_owned(),
            created_at: time.clone(),
            last_seen_at: time,
        }
    }

    #[test]
    fn browser_is_found_by_id_prefix() {
        let all = [browser("abc1"), browser("abd2")];
        for (name, expected) in [
            ("abc1", Ok("abc1")),
            ("abd", Ok("abd2")),
            ("ab", Err(Exit::Usage)),
            ("", Err(Exit::Failed)),
            ("x", Err(Exit::Failed)),
        ] {
            let found = find_browser(&all, name).map(|found| found.id.as_str()).map_err(|failure| failure.exit);
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn loopback_links_are_recognized() {
        for base in ["http://127.0.0.1:8137", "http://localhost:1", "https://[::1]:8137", "http://a.localhost"] {
            assert!(is_loopback(base), "{base}");
        }
        for base in ["https://box.example", "http://192.168.1.5:8137", "http://localhost.example"] {
            assert!(!is_loopback(base), "{base}");
        }
    }

    #[test]
    fn qr_code_is_rendered_in_half_blocks() {
        let drawn = render_qr_code("https://box.example/#link=0123456789abcdef01234567").unwrap();
        assert!(drawn.lines().count() > 15 && drawn.chars().all(|sign| " ▀▄█\n".contains(sign)), "{drawn}");
    }
}
