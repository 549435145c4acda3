//! Runs shell commands in the workspace, with limits on time and output.
//!
//! This is **not a sandbox**: a command can read, write, delete and use the network like its user.
//! Only its time, its output and the processes it leaves behind are limited. When the command ends,
//! times out or its call is dropped, all processes of its process group are killed. A process that
//! starts its own group escapes this, and nothing is killed if this process itself is killed. On
//! systems other than Unix, which have no process groups, only the shell is killed.

use std::ffi::{OsStr, OsString};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::kept::KeptOutput;
use super::workspace::{Workspace, invalid};
use crate::engine::{Tool, ToolCx, ToolError, ToolLimits};
use crate::group::Group;

/// How long to wait for remaining output after the group is killed. Only a process that left the
/// group can keep a pipe open.
const GRACE: Duration = Duration::from_secs(1);

/// Variables that a command needs to find its programs, home directory and language. None of them
/// holds a secret.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
    "SYSTEMROOT",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERPROFILE",
];

/// Returns the environment variables that a command may see: only those on a short list of harmless
/// names, which no key or token has.
pub fn passed_on(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let harmless = |name: &OsStr| {
        let name = name.to_str().unwrap_or_default();
        name.starts_with("LC_")
            || PASSED_ON
                .iter()
                .any(|passed| passed.eq_ignore_ascii_case(name))
    };
    environment
        .into_iter()
        .filter(|(name, _)| harmless(name))
        .collect()
}

/// Runs a shell command.
#[derive(Debug, Clone)]
pub struct RunCommand {
    workspace: Workspace,
    environment: Vec<(OsString, OsString)>,
    timeout: Duration,
    max_output_bytes: usize,
}

impl RunCommand {
    /// Creates a tool that runs commands in `workspace` with an empty environment, a timeout of 60
    /// seconds, and 32 KiB of each output stream.
    pub fn new(workspace: Workspace) -> Self {
        let (timeout, max_output_bytes) = (Duration::from_secs(60), 32 << 10);
        Self {
            workspace,
            environment: Vec::new(),
            timeout,
            max_output_bytes,
        }
    }

    /// Sets the only variables that commands get. [`passed_on`] selects harmless ones.
    #[must_use]
    pub fn environment(mut self, environment: Vec<(OsString, OsString)>) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the timeout of a command. A call can ask for a shorter one, but not for a longer one.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many bytes of each output stream are kept.
    #[must_use]
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.max_output_bytes = bytes;
        self
    }

    /// Runs a command and returns how it ended.
    ///
    /// # Errors
    /// Fails if the shell can't be started. A command that fails isn't an error.
    pub async fn run(&self, command: &str, limit: Duration) -> Result<Ran, ToolError> {
        let cannot =
            |error: std::io::Error| ToolError::new(format!("the command cannot be run: {error}"));
        let mut child = self.command(command).spawn().map_err(cannot)?;
        let mut group = Group::led_by(&child);
        let (mut stdout, mut stderr) = (
            KeptOutput::new(self.max_output_bytes),
            KeptOutput::new(self.max_output_bytes),
        );
        let ended = {
            let pipes = (child.stdout.take(), child.stderr.take());
            let reading =
                async { tokio::join!(keep(pipes.0, &mut stdout), keep(pipes.1, &mut stderr)) };
            let mut reading = pin!(reading);
            let mut drained = false;
            let ending = async {
                loop {
                    tokio::select! {
                        status = child.wait() => break status,
                        _ = &mut reading, if !drained => drained = true,
                    }
                }
            };
            let ended = timeout(limit, ending).await;
            // No process that the command started outlives it. Without them, the pipes are closed.
            group.kill();
            if !drained {
                let _ = timeout(GRACE, reading).await;
            }
            ended
        };
        let (status, timed_out) = match ended {
            Ok(status) => (status.map_err(cannot)?, false),
            Err(_) => {
                child.start_kill().map_err(cannot)?;
                (child.wait().await.map_err(cannot)?, true)
            }
        };
        let ((stdout, out_gone), (stderr, err_gone)) = (stdout.text(), stderr.text());
        Ok(Ran {
            exit_code: status.code(),
            signal: signal(status),
            timed_out,
            stdout,
            stderr,
            truncated_bytes: out_gone + err_gone,
        })
    }

    fn command(&self, text: &str) -> Command {
        let mut command = if cfg!(windows) {
            Command::new("cmd")
        } else {
            Command::new("sh")
        };
        command.args([if cfg!(windows) { "/C" } else { "-c" }, text]);
        command.current_dir(self.workspace.root());
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command
    }
}

/// What to run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandArgs {
    /// The command, for `sh -c`, in the workspace.
    pub command: String,
    /// Timeout in seconds. The configured limit is the default and the maximum.
    #[serde(default)]
    pub timeout_s: Option<u64>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ran {
    /// The exit status. `None` if a signal ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the command was killed because it timed out.
    pub timed_out: bool,
    /// Standard output. If it is long, only its start and end.
    pub stdout: String,
    /// Standard error. If it is long, only its start and end.
    pub stderr: String,
    /// Number of bytes removed from both streams together.
    pub truncated_bytes: u64,
}

impl Ran {
    /// Returns whether the command ended with status 0.
    pub fn success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }
}

impl Tool for RunCommand {
    type Args = CommandArgs;
    type Output = Ran;

    fn name(&self) -> &str {
        "run_command"
    }

    fn description(&self) -> &str {
        "Runs a command with `sh -c` in the workspace, without input. Returns exit_code, stdout and stderr. On timeout, \
         it is killed with everything that it started."
    }

    async fn call(&self, args: CommandArgs, _cx: ToolCx<'_>) -> Result<Ran, ToolError> {
        if args.command.trim().is_empty() {
            return Err(invalid("the command is empty"));
        }
        if args.timeout_s == Some(0) {
            let most = self.timeout.as_secs_f64();
            return Err(invalid(format!(
                "a timeout_s of 0 allows nothing to run; omit it for the maximum of {most} s"
            )));
        }
        let limit = args.timeout_s.map_or(self.timeout, |seconds| {
            Duration::from_secs(seconds).min(self.timeout)
        });
        self.run(&args.command, limit).await
    }

    /// The tool enforces its own timeout, so that the output written before a timeout isn't lost.
    fn limits(&self) -> ToolLimits {
        ToolLimits {
            timeout: None,
            ..ToolLimits::default()
        }
    }
}

async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut KeptOutput) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 << 10];
    // A read error counts as the end of the output.
    while let Ok(many @ 1..) = pipe.read(&mut buffer).await {
        kept.push(buffer.get(..many).unwrap_or_default());
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}
