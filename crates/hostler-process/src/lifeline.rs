//! What host and supervisor say to each other over the lifeline.
//!
//! The host says one thing, a [`Launch`], and then keeps its end open for as long as the agent may live: the end of the
//! stream is the order to end the tree, so that a host which dies has given it too. The supervisor answers with
//! [`Report`]s, one per line.
//!
//! The launch goes this way, and not by arguments or environment, so that the supervisor itself shows no secret.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use crate::exit::ExitReport;

/// The supervisor's file descriptor for its end of the lifeline.
pub(crate) const LIFELINE_FD: i32 = 3;

/// The supervisor's file descriptor for what it keeps locked, if there is something.
pub(crate) const LOCK_FD: i32 = 4;

/// More than any kernel takes as arguments and environment of a program.
const LARGEST_LAUNCH: usize = 64 * 1024 * 1024;

/// What the supervisor starts. Holds secrets, so it has no `Debug`.
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// The lock file that the supervisor removes when the tree is empty.
    pub(crate) lock: Option<PathBuf>,
    /// Whether standard input is a terminal that the program is to control: it begins a session of its own.
    pub(crate) terminal: bool,
}

impl Launch {
    /// The message: its length, then strings and counts, each with its length before it.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        put(&mut body, self.program.as_os_str())?;
        put(&mut body, self.cwd.as_os_str())?;
        put(&mut body, self.lock.as_deref().unwrap_or("".as_ref()).as_os_str())?;
        put_number(&mut body, self.args.len())?;
        for arg in &self.args {
            put(&mut body, arg)?;
        }
        put_number(&mut body, self.env.len())?;
        for (name, value) in &self.env {
            put(&mut body, name)?;
            put(&mut body, value)?;
        }
        put_number(&mut body, usize::from(self.terminal))?;
        let mut message = Vec::with_capacity(body.len() + 4);
        put_number(&mut message, body.len())?;
        message.append(&mut body);
        Ok(message)
    }

    /// Reads the message; `None` if the host went away before it had said everything.
    pub(crate) fn read_from(lifeline: &mut impl Read) -> io::Result<Option<Self>> {
        let mut length = [0; 4];
        if let Err(error) = lifeline.read_exact(&mut length) {
            return unless_ended(error);
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST_LAUNCH {
            return Err(garbled());
        }
        let mut body = vec![0; length];
        if let Err(error) = lifeline.read_exact(&mut body) {
            return unless_ended(error);
        }
        Self::decode(&body).map(Some)
    }

    fn decode(mut body: &[u8]) -> io::Result<Self> {
        let body = &mut body;
        let program = take(body)?.into();
        let cwd = take(body)?.into();
        let lock = Some(PathBuf::from(take(body)?)).filter(|path| !path.as_os_str().is_empty());
        let args = (0..take_number(body)?).map(|_| take(body)).collect::<Result<_, _>>()?;
        let env = (0..take_number(body)?).map(|_| Ok((take(body)?, take(body)?))).collect::<io::Result<_>>()?;
        let terminal = take_number(body)? != 0;
        Ok(Self { program, args, env, cwd, lock, terminal })
    }
}

fn put(out: &mut Vec<u8>, text: &OsStr) -> io::Result<()> {
    put_number(out, text.len())?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn put_number(out: &mut Vec<u8>, number: usize) -> io::Result<()> {
    let number = u32::try_from(number)
        .ok()
        .filter(|&number| number as usize <= LARGEST_LAUNCH)
        .ok_or_else(|| io::Error::from(io::ErrorKind::ArgumentListTooLong))?;
    out.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

fn take(body: &mut &[u8]) -> io::Result<OsString> {
    let length = take_number(body)? as usize;
    let (text, rest) = body.split_at_checked(length).ok_or_else(garbled)?;
    *body = rest;
    Ok(OsString::from_vec(text.to_vec()))
}

fn take_number(body: &mut &[u8]) -> io::Result<u32> {
    let (number, rest) = body.split_first_chunk().ok_or_else(garbled)?;
    *body = rest;
    Ok(u32::from_le_bytes(*number))
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the launch message makes no sense")
}

fn unless_ended<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(None),
        _ => Err(error),
    }
}

/// What the supervisor tells the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The agent runs.
    Started { pid: u32 },
    /// The agent could not be started.
    Failed { step: Step, errno: i32 },
    /// The agent ended; its tree may still be there.
    Exited(ExitReport),
    /// No process of the tree is left; the supervisor ends.
    Empty,
}

/// A step of starting an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Program,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { pid } => write!(f, "started {pid}"),
            Self::Failed { step, errno } => match step {
                Step::Directory => write!(f, "failed directory {errno}"),
                Step::Program => write!(f, "failed program {errno}"),
            },
            Self::Exited(ExitReport { code: Some(code), .. }) => write!(f, "exited code {code}"),
            Self::Exited(ExitReport { signal, .. }) => {
                write!(f, "exited signal {}", signal.unwrap_or_default())
            }
            Self::Empty => f.write_str("empty"),
        }
    }
}

/// A line on the lifeline that is no report: something else than our supervisor runs there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoReport;

impl FromStr for Report {
    type Err = NoReport;

    fn from_str(line: &str) -> Result<Self, NoReport> {
        fn number<T: FromStr>(text: &str) -> Result<T, NoReport> {
            text.parse().map_err(|_| NoReport)
        }
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[..] {
            ["started", pid] => Self::Started { pid: number(pid)? },
            ["failed", "directory", errno] => Self::Failed { step: Step::Directory, errno: number(errno)? },
            ["failed", "program", errno] => Self::Failed { step: Step::Program, errno: number(errno)? },
            ["exited", "code", code] => Self::Exited(ExitReport::from_code(number(code)?)),
            ["exited", "signal", signal] => Self::Exited(ExitReport::from_signal(number(signal)?)),
            ["empty"] => Self::Empty,
            _ => return Err(NoReport),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            program: "/bin/agent".into(),
            args: vec!["--flag=ä b".into(), "".into(), OsString::from_vec(vec![0xff])],
            env: vec![("NAME".into(), "value\nwith line feed".into())],
            cwd: "/home".into(),
            lock: None,
            terminal: true,
        }
    }

    #[test]
    fn a_launch_arrives_as_it_was_sent() {
        let sent = launch();
        let got = Launch::read_from(&mut &sent.encode().unwrap()[..]).unwrap().unwrap();
        assert_eq!(
            (got.program, got.args, got.env, got.cwd, got.lock, got.terminal),
            (sent.program, sent.args, sent.env, sent.cwd, sent.lock, sent.terminal)
        );
        let locked = Launch { lock: Some("/run/c.lock".into()), ..launch() };
        let got = Launch::read_from(&mut &locked.encode().unwrap()[..]).unwrap().unwrap();
        assert_eq!(got.lock, locked.lock);
    }

    #[test]
    fn a_launch_that_breaks_off_anywhere_starts_nothing() {
        let message = launch().encode().unwrap();
        for end in 0..message.len() {
            assert!(Launch::read_from(&mut &message[..end]).unwrap().is_none(), "at {end}");
        }
    }

    #[test]
    fn a_garbled_launch_is_an_error() {
        for bad in [&[255, 255, 255, 255][..], &[4, 0, 0, 0, 9, 0, 0, 0], &[1, 0, 0, 0, 7]] {
            assert!(Launch::read_from(&mut &bad[..]).is_err());
        }
    }

    #[test]
    fn every_report_can_be_read_back() {
        for report in [
            Report::Started { pid: 7 },
            Report::Failed { step: Step::Directory, errno: 2 },
            Report::Failed { step: Step::Program, errno: 13 },
            Report::Exited(ExitReport::from_code(3)),
            Report::Exited(ExitReport::from_signal(9)),
            Report::Empty,
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        for bad in ["", "started", "started x", "empty 1", "exited"] {
            assert_eq!(bad.parse::<Report>(), Err(NoReport), "{bad}");
        }
    }
}
