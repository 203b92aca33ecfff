//! The messages between host and supervisor over the lifeline.
//!
//! The host sends one [`LaunchMessage`] and holds its end open as long as the agent may live: the end of the stream
//! is the order to end the tree, so a host that dies gives it too. The supervisor sends [`SupervisorReport`]s, one
//! per line.
//!
//! The launch travels on the lifeline, not in arguments or environment, so that the supervisor's process entry
//! contains no secret.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use crate::exit_report::ExitReport;

/// The supervisor's file descriptor for its end of the lifeline.
pub(crate) const LIFELINE_FD: i32 = 3;

/// The supervisor's file descriptor for the inherited lock, if there is one.
pub(crate) const LOCK_FD: i32 = 4;

/// Larger than any kernel accepts as a program's arguments and environment.
const MAX_LAUNCH_BYTES: usize = 64 * 1024 * 1024;

/// What the supervisor starts. It contains secrets, so it has no `Debug`.
pub(crate) struct LaunchMessage {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// The lock file that the supervisor removes when the tree is empty.
    pub(crate) lock: Option<PathBuf>,
    /// Whether standard input is a terminal that the program controls: it then starts a session of its own.
    pub(crate) terminal: bool,
}

impl LaunchMessage {
    /// The encoded message: its length, then counts and length-prefixed strings.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        put_string(&mut body, self.program.as_os_str())?;
        put_string(&mut body, self.cwd.as_os_str())?;
        put_string(&mut body, self.lock.as_deref().unwrap_or("".as_ref()).as_os_str())?;
        put_number(&mut body, self.args.len())?;
        for arg in &self.args {
            put_string(&mut body, arg)?;
        }
        put_number(&mut body, self.env.len())?;
        for (name, value) in &self.env {
            put_string(&mut body, name)?;
            put_string(&mut body, value)?;
        }
        put_number(&mut body, usize::from(self.terminal))?;
        let mut message = Vec::with_capacity(body.len() + 4);
        put_number(&mut message, body.len())?;
        message.append(&mut body);
        Ok(message)
    }

    /// Reads the message; `None` if the host closed the lifeline before it was complete.
    pub(crate) fn read_from(lifeline: &mut impl Read) -> io::Result<Option<Self>> {
        let mut length = [0; 4];
        if let Err(error) = lifeline.read_exact(&mut length) {
            return none_if_closed(error);
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_LAUNCH_BYTES {
            return Err(malformed_launch());
        }
        let mut body = vec![0; length];
        if let Err(error) = lifeline.read_exact(&mut body) {
            return none_if_closed(error);
        }
        Self::decode(&body).map(Some)
    }

    fn decode(mut body: &[u8]) -> io::Result<Self> {
        let body = &mut body;
        let program = take_string(body)?.into();
        let cwd = take_string(body)?.into();
        let lock = Some(PathBuf::from(take_string(body)?)).filter(|path| !path.as_os_str().is_empty());
        let args = (0..take_number(body)?).map(|_| take_string(body)).collect::<Result<_, _>>()?;
        let env =
            (0..take_number(body)?).map(|_| Ok((take_string(body)?, take_string(body)?))).collect::<io::Result<_>>()?;
        let terminal = take_number(body)? != 0;
        Ok(Self { program, args, env, cwd, lock, terminal })
    }
}

fn put_string(out: &mut Vec<u8>, text: &OsStr) -> io::Result<()> {
    put_number(out, text.len())?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn put_number(out: &mut Vec<u8>, number: usize) -> io::Result<()> {
    let number = u32::try_from(number)
        .ok()
        .filter(|&number| number as usize <= MAX_LAUNCH_BYTES)
        .ok_or_else(|| io::Error::from(io::ErrorKind::ArgumentListTooLong))?;
    out.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

fn take_string(body: &mut &[u8]) -> io::Result<OsString> {
    let length = take_number(body)? as usize;
    let (text, rest) = body.split_at_checked(length).ok_or_else(malformed_launch)?;
    *body = rest;
    Ok(OsString::from_vec(text.to_vec()))
}

fn take_number(body: &mut &[u8]) -> io::Result<u32> {
    let (number, rest) = body.split_first_chunk().ok_or_else(malformed_launch)?;
    *body = rest;
    Ok(u32::from_le_bytes(*number))
}

fn malformed_launch() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid launch message")
}

fn none_if_closed<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(None),
        _ => Err(error),
    }
}

/// What the supervisor reports to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupervisorReport {
    /// The agent is running.
    Started { pid: u32 },
    /// The agent could not be started.
    Failed { step: StartStep, errno: i32 },
    /// The agent exited; processes of its tree may remain.
    Exited(ExitReport),
    /// The tree is empty; the supervisor exits.
    TreeEmpty,
}

/// A step of starting an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Program,
}

impl fmt::Display for SupervisorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { pid } => write!(f, "started {pid}"),
            Self::Failed { step, errno } => match step {
                StartStep::Directory => write!(f, "failed directory {errno}"),
                StartStep::Program => write!(f, "failed program {errno}"),
            },
            Self::Exited(ExitReport { code: Some(code), .. }) => write!(f, "exited code {code}"),
            Self::Exited(ExitReport { signal, .. }) => {
                write!(f, "exited signal {}", signal.unwrap_or_default())
            }
            Self::TreeEmpty => f.write_str("empty"),
        }
    }
}

/// A line on the lifeline that is no report: the process there is not our supervisor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseReportError;

impl FromStr for SupervisorReport {
    type Err = ParseReportError;

    fn from_str(line: &str) -> Result<Self, ParseReportError> {
        fn number<T: FromStr>(text: &str) -> Result<T, ParseReportError> {
            text.parse().map_err(|_| ParseReportError)
        }
        let fields: Vec<&str> = line.split(' ').collect();
        Ok(match fields[..] {
            ["started", pid] => Self::Started { pid: number(pid)? },
            ["failed", "directory", errno] => Self::Failed { step: StartStep::Directory, errno: number(errno)? },
            ["failed", "program", errno] => Self::Failed { step: StartStep::Program, errno: number(errno)? },
            ["exited", "code", code] => Self::Exited(ExitReport::from_code(number(code)?)),
            ["exited", "signal", signal] => Self::Exited(ExitReport::from_signal(number(signal)?)),
            ["empty"] => Self::TreeEmpty,
            _ => return Err(ParseReportError),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> LaunchMessage {
        LaunchMessage {
            program: "/bin/agent".into(),
            args: vec!["--flag=ä b".into(), "".into(), OsString::from_vec(vec![0xff])],
            env: vec![("NAME".into(), "value\nwith line feed".into())],
            cwd: "/home".into(),
            lock: None,
            terminal: true,
        }
    }

    #[test]
    fn launch_message_round_trips() {
        let sent = launch();
        let got = LaunchMessage::read_from(&mut &sent.encode().unwrap()[..]).unwrap().unwrap();
        assert_eq!(
            (got.program, got.args, got.env, got.cwd, got.lock, got.terminal),
            (sent.program, sent.args, sent.env, sent.cwd, sent.lock, sent.terminal)
        );
        let locked = LaunchMessage { lock: Some("/run/c.lock".into()), ..launch() };
        let got = LaunchMessage::read_from(&mut &locked.encode().unwrap()[..]).unwrap().unwrap();
        assert_eq!(got.lock, locked.lock);
    }

    #[test]
    fn truncated_launch_message_is_none() {
        let message = launch().encode().unwrap();
        for end in 0..message.len() {
            assert!(LaunchMessage::read_from(&mut &message[..end]).unwrap().is_none(), "at {end}");
        }
    }

    #[test]
    fn malformed_launch_message_is_an_error() {
        for bad in [&[255, 255, 255, 255][..], &[4, 0, 0, 0, 9, 0, 0, 0], &[1, 0, 0, 0, 7]] {
            assert!(LaunchMessage::read_from(&mut &bad[..]).is_err());
        }
    }

    #[test]
    fn reports_round_trip() {
        for report in [
            SupervisorReport::Started { pid: 7 },
            SupervisorReport::Failed { step: StartStep::Directory, errno: 2 },
            SupervisorReport::Failed { step: StartStep::Program, errno: 13 },
            SupervisorReport::Exited(ExitReport::from_code(3)),
            SupervisorReport::Exited(ExitReport::from_signal(9)),
            SupervisorReport::TreeEmpty,
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        for bad in ["", "started", "started x", "empty 1", "exited"] {
            assert_eq!(bad.parse::<SupervisorReport>(), Err(ParseReportError), "{bad}");
        }
    }
}
