//! Gets tokens for Azure from `az`, after a login with `az login`.
//!
//! object_store can run `az` too, but blocks the thread of the mirror until the program ends, so that neither a time limit
//! nor a stop would work.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::address::Cloud;
use super::fault::{Fault, first_line};
use crate::group::Group;

const SCOPE: &str = "https://storage.azure.com/.default";
/// Limits the wait for a token. `az` is a Python program, which takes seconds to start on a slow machine.
const TIME: Duration = Duration::from_secs(30);
/// Tokens from `az` are valid for at least five more minutes. Old versions print their end only in local time.
const RENEW: Duration = Duration::from_secs(240);

/// Returns whether object_store would run `az`. That is its last choice before the identity of the machine.
pub(super) fn is_chosen(builder: &MicrosoftAzureBuilder) -> bool {
    use AzureConfigKey as Key;
    let value = |key: &Key| builder.get_config_value(key);
    let before: [&[Key]; 6] = [
        &[
            Key::FabricTokenServiceUrl,
            Key::FabricWorkloadHost,
            Key::FabricSessionToken,
            Key::FabricClusterIdentifier,
        ],
        &[Key::Token],
        &[Key::AccessKey],
        &[Key::ClientId, Key::AuthorityId, Key::FederatedTokenFile],
        &[Key::ClientId, Key::AuthorityId, Key::ClientSecret],
        &[Key::SasKey],
    ];
    match value(&Key::CredentialType).as_deref() {
        None | Some("auto") => {
            let on = value(&Key::UseAzureCli).unwrap_or_default();
            let is_on = ["1", "true", "on", "yes", "y"].contains(&&*on.to_ascii_lowercase());
            is_on
                && !before
                    .iter()
                    .any(|all| all.iter().all(|key| value(key).is_some()))
        }
        Some(kind) => kind == "azure_cli",
    }
}

/// Gets tokens from `az`, and keeps them while they are valid.
pub(super) struct Az {
    command: Vec<String>,
    time: Duration,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    credential: Arc<AzureCredential>,
    until: SystemTime,
}

/// The answer of `az`.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "accessToken")]
    token: String,
    /// Seconds since the Unix epoch.
    expires_on: Option<u64>,
}

impl fmt::Debug for Az {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Az").finish_non_exhaustive()
    }
}

impl Az {
    pub(super) fn new() -> Self {
        // On Windows, `az` is a script.
        let start: &[&str] = if cfg!(windows) {
            &["cmd", "/C", "az"]
        } else {
            &["az"]
        };
        let rest = [
            "account",
            "get-access-token",
            "--output",
            "json",
            "--scope",
            SCOPE,
        ];
        Self::of(start.iter().chain(&rest), TIME)
    }

    fn of<'a>(command: impl IntoIterator<Item = &'a &'a str>, time: Duration) -> Self {
        Self {
            command: command.into_iter().map(|&word| word.to_owned()).collect(),
            time,
            cached: Mutex::default(),
        }
    }

    /// Returns the cached token, or gets one. If the request is dropped, the program is killed.
    async fn token(&self) -> Result<Arc<AzureCredential>, String> {
        let mut cached = self.cached.lock().await;
        let now = SystemTime::now();
        if let Some(cached) = cached.as_ref().filter(|cached| now < cached.until) {
            return Ok(Arc::clone(&cached.credential));
        }
        let (program, arguments) = self.command.split_first().ok_or_else(String::new)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|error| error.to_string())?;
        // `az` is a script, which starts Python.
        let group = Group::led_by(&child);
        let output = child.wait_with_output().await;
        let output = output.map_err(|error| error.to_string())?;
        group.release();
        if !output.status.success() {
            let said = first_line(String::from_utf8_lossy(&output.stderr).trim());
            return Err(format!("{}: {said}", output.status));
        }
        // The text of this error would have a part of the token.
        let answer: Answer = serde_json::from_slice(&output.stdout)
            .map_err(|_| "it didn't print a token as JSON".to_owned())?;
        let expires = answer.expires_on;
        let expires = expires.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        let renew = expires.and_then(|at| at.checked_sub(RENEW));
        let credential = Arc::new(AzureCredential::BearerToken(answer.token));
        *cached = Some(Cached {
            credential: Arc::clone(&credential),
            until: renew.unwrap_or(now + RENEW),
        });
        Ok(credential)
    }
}

#[async_trait]
impl CredentialProvider for Az {
    type Credential = AzureCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
        // Includes the wait for a request that is already asking.
        let token = timeout(self.time, self.token()).await;
        let late = |_| Err(format!("no answer within {} s", self.time.as_secs()));
        token.unwrap_or_else(late).map_err(|why| {
            let what = format!("`az account get-access-token` failed: {why}");
            object_store::Error::Generic {
                store: "MicrosoftAzure",
                source: Box::new(Fault::no_login(&what, Cloud::Azure)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(options: &[(&str, &str)]) -> MicrosoftAzureBuilder {
        let options = options.iter();
        options.fold(MicrosoftAzureBuilder::new(), |builder, (name, value)| {
            builder.with_config(name.parse().unwrap(), *value)
        })
    }

    #[test]
    fn az_is_asked_only_if_no_other_credentials_come_first() {
        let az = ("azure_use_azure_cli", "True");
        for (options, is_az) in [
            (&[az][..], true),
            (&[("azure_use_azure_cli", "false")], false),
            (&[], false),
            (&[az, ("azure_storage_account_key", "c2VjcmV0")], false),
            (&[az, ("azure_storage_sas_token", "sv=1")], false),
            (&[az, ("azure_client_id", "x")], true),
            (&[az, ("azure_credential_type", "managed_identity")], false),
            (&[("azure_credential_type", "azure_cli")], true),
        ] {
            let builder = builder(options).with_account("a").with_container_name("c");
            assert_eq!(is_chosen(&builder), is_az, "{options:?}");
            // The choice is the same as that of object_store.
            let chosen = builder.with_http_connector(Nowhere).build().unwrap();
            let chosen = format!("{:?}", chosen.credentials());
            assert_eq!(chosen.starts_with("AzureCliCredential"), is_az, "{chosen}");
        }
    }

    #[derive(Debug)]
    struct Nowhere;

    #[async_trait]
    impl object_store::client::HttpService for Nowhere {
        async fn call(
            &self,
            _: object_store::client::HttpRequest,
        ) -> Result<object_store::client::HttpResponse, object_store::client::HttpError> {
            unreachable!()
        }
    }

    impl object_store::client::HttpConnector for Nowhere {
        fn connect(
            &self,
            _: &object_store::ClientOptions,
        ) -> object_store::Result<object_store::client::HttpClient> {
            Ok(object_store::client::HttpClient::new(Self))
        }
    }

    #[cfg(unix)]
    fn asked(script: &str, times: usize) -> Vec<Result<String, Fault>> {
        let az = Az::of(&["sh", "-c", script], Duration::from_secs(1));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ask = || runtime.block_on(az.get_credential());
        let asked = (0..times).map(|_| match ask() {
            Ok(credential) => match &*credential {
                AzureCredential::BearerToken(token) => Ok(token.clone()),
                other => panic!("{other:?}"),
            },
            Err(error) => Err(Fault::of(&error)),
        });
        asked.collect()
    }

    #[cfg(unix)]
    #[test]
    fn a_token_of_az_is_kept_until_it_is_about_to_expire() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let script = |expires: &str| {
            let count = count.display();
            format!(r#"echo x >> {count}; echo '{{"accessToken": "t", {expires} "x": 1}}'"#)
        };
        for (expires, runs) in [
            (r#""expires_on": 4102444800,"#, 1),
            ("", 1),
            (r#""expires_on": 1,"#, 2),
        ] {
            let _ = std::fs::remove_file(&count);
            assert_eq!(
                asked(&script(expires), 2),
                [Ok("t".to_owned()), Ok("t".to_owned())]
            );
            assert_eq!(
                std::fs::read_to_string(&count).unwrap().lines().count(),
                runs,
                "{expires}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn az_that_fails_or_hangs_is_a_failed_login() {
        for (script, why) in [
            (
                "echo please log in >&2; exit 1",
                "exit status: 1: please log in",
            ),
            ("echo secret", "it didn't print a token as JSON"),
            ("exec sleep 60", "no answer within 1 s"),
        ] {
            let fault = asked(script, 1).remove(0).unwrap_err();
            assert!(fault.what().ends_with(why), "{fault}");
            assert!(fault.hint().is_some_and(|hint| hint.contains("az login")));
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_az_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait; :", pid.display());
        let fault = asked(&script, 1).remove(0).unwrap_err();
        assert!(fault.what().ends_with("no answer within 1 s"), "{fault}");
        let pid = std::fs::read_to_string(pid).unwrap();
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while lives() {
            std::thread::yield_now();
        }
    }
}
