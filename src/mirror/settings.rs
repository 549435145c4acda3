//! Which store is asked, where, and as whom? By the environment and the files that the tools of AWS read.
//!
//! Knows no requests. What these files can say and the board cannot do (single sign-on, other programs that hand out
//! keys) is told as such, with a way around.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// How a way around looks for keys that come from elsewhere.
const EXPORT: &str =
    "`aws configure export-credentials --format env` prints keys that the board understands";
/// Where the region is not said.
const REGION: &str = "us-east-1";

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) session: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What is known of a store before it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `None` asks without a signature, which public buckets answer.
    pub(super) credentials: Option<Credentials>,
    /// Why there are none, where a file says so much.
    pub(super) why_none: Option<String>,
    pub(super) region: String,
    /// The address of a store that is not AWS, without a `/` at its end.
    pub(super) endpoint: Option<String>,
    /// Whether the bucket stands in the path, where that is said.
    pub(super) path_style: Option<bool>,
    /// Whether to read again who asks, where the store refuses.
    pub(super) reread: bool,
}

impl Settings {
    /// Reads the environment and the files that it names.
    ///
    /// # Errors
    /// A profile that was asked for is in neither file, or a file cannot be read.
    pub fn read() -> Result<Self> {
        Self::read_with(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn read_with(var: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().trim().to_owned());
        let home = var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from);
        let file = |name: &str, usual: &str| {
            let named = var(name).map(PathBuf::from);
            let file = named.or_else(|| Some(home.as_ref()?.join(".aws").join(usual)));
            file.map_or_else(|| Ok(Sections::new()), |file| sections(&file))
        };
        let keys = file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let config = file("AWS_CONFIG_FILE", "config")?;
        let asked = text("AWS_PROFILE").or_else(|| text("AWS_DEFAULT_PROFILE"));
        let profile = asked.as_deref().unwrap_or("default");
        let of_keys = keys.get(profile);
        let of_config = config
            .get(&format!("profile {profile}"))
            .or_else(|| config.get(profile));
        if asked.is_some() && of_keys.is_none() && of_config.is_none() {
            let error = Error::new(
                Kind::Usage,
                format!("there is no profile {profile} in the files of AWS"),
            );
            return Err(
                error.hint("AWS_PROFILE names a section of ~/.aws/credentials or ~/.aws/config")
            );
        }
        let said = |name: &str| {
            let both = [of_keys, of_config];
            both.into_iter()
                .flatten()
                .find_map(|section| section.get(name))
                .filter(|value| !value.is_empty())
                .cloned()
        };
        // The environment counts before the files, but a profile that was asked for before keys that lie about.
        let from_env = || {
            pair(
                text("AWS_ACCESS_KEY_ID"),
                text("AWS_SECRET_ACCESS_KEY"),
                text("AWS_SESSION_TOKEN"),
            )
        };
        let from_files = || {
            pair(
                said("aws_access_key_id"),
                said("aws_secret_access_key"),
                said("aws_session_token"),
            )
        };
        let credentials = from_env().or_else(from_files);
        let elsewhere = [
            "sso_session",
            "sso_start_url",
            "credential_process",
            "role_arn",
            "login_session",
        ];
        let why_none = elsewhere
            .into_iter()
            .find(|name| said(name).is_some())
            .filter(|_| credentials.is_none());
        let why_none = why_none.map(|name| {
            format!("the profile {profile} has {name}, which the board does not follow; {EXPORT}")
        });
        let ignored = text("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
            .is_some_and(|said| said.eq_ignore_ascii_case("true"));
        let service = said("services").and_then(|name| {
            config
                .get(&format!("services {name}"))?
                .get("s3.endpoint_url")
        });
        let of_files = || {
            service
                .cloned()
                .or_else(|| said("s3.endpoint_url"))
                .or_else(|| said("endpoint_url"))
        };
        let endpoint = text("AWS_ENDPOINT_URL_S3")
            .or_else(|| text("AWS_ENDPOINT_URL"))
            .or_else(of_files);
        let style = said("s3.addressing_style");
        Ok(Self {
            credentials,
            why_none,
            region: text("AWS_REGION")
                .or_else(|| text("AWS_DEFAULT_REGION"))
                .or_else(|| said("region"))
                .unwrap_or_else(|| REGION.to_owned()),
            endpoint: endpoint
                .filter(|_| !ignored)
                .map(|endpoint| endpoint.trim_end_matches('/').to_owned()),
            reread: true,
            path_style: style.and_then(|style| match &*style {
                "path" => Some(true),
                "virtual" => Some(false),
                _ => None,
            }),
        })
    }
}

fn pair(
    id: Option<String>,
    secret: Option<String>,
    session: Option<String>,
) -> Option<Credentials> {
    Some(Credentials {
        id: id?,
        secret: secret?,
        session,
    })
}

/// The sections of a file; what is nested below a name has the name before its own: `s3.addressing_style`.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// A file that is not there says nothing.
fn sections(file: &Path) -> Result<Sections> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sections::new()),
        Err(error) => {
            let what = format!("cannot read the settings of AWS in {}", file.display());
            Err(Error::new(Kind::Unreadable, what).because(error))
        }
    }
}

fn parse(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut name = String::new();
    let mut above = String::new();
    for line in text.lines() {
        let inner = line.trim();
        if inner.is_empty() || inner.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            // Names may be quoted, and any blanks stand between the two words.
            name = head
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace(['"', '\''], "");
            above.clear();
            sections.entry(name.clone()).or_default();
            continue;
        }
        let Some((key, value)) = inner.split_once('=') else {
            continue;
        };
        let key = key.trim().to_ascii_lowercase();
        let value = value.split(" #").next().unwrap_or_default().trim();
        let nested = line.starts_with([' ', '\t']) && !above.is_empty();
        let key = if nested {
            format!("{above}.{key}")
        } else {
            key
        };
        if !nested {
            above = if value.is_empty() {
                key.clone()
            } else {
                String::new()
            };
        }
        sections
            .entry(name.clone())
            .or_default()
            .insert(key, value.to_owned());
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "[default]\naws_access_key_id = AKID\naws_secret_access_key=secret/+= \n\n# other\n[ci]\n\
        aws_access_key_id=CI\naws_secret_access_key=cis\naws_session_token=cit\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\n[profile  ci]\nregion=eu-central-1 # near\ns3 =\n  \
        addressing_style = path\n  endpoint_url = http://minio:9000/\nservices = mine\n[profile sso]\nsso_session = x\n\
        [services mine]\ns3 =\n  endpoint_url = http://ceph:7480\ndynamodb =\n  endpoint_url = http://no\n";

    fn read(vars: &[(&str, &str)]) -> Result<Settings> {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::write(home.path().join(".aws/credentials"), KEYS).unwrap();
        fs::write(home.path().join(".aws/config"), CONFIG).unwrap();
        Settings::read_with(|name| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            _ => vars
                .iter()
                .find(|(var, _)| *var == name)
                .map(|(_, value)| (*value).into()),
        })
    }

    fn who(settings: &Settings) -> (String, String, Option<String>) {
        let who = settings.credentials.clone().unwrap();
        (who.id, who.secret, who.session)
    }

    #[test]
    fn the_files_say_who_asks_and_the_environment_counts_first() {
        let settings = read(&[]).unwrap();
        assert_eq!(
            who(&settings),
            ("AKID".to_owned(), "secret/+=".to_owned(), None)
        );
        assert_eq!(
            (&*settings.region, settings.endpoint, settings.path_style),
            ("eu-west-1", None, None)
        );

        let settings = read(&[("AWS_PROFILE", "ci")]).unwrap();
        assert_eq!(
            who(&settings),
            ("CI".to_owned(), "cis".to_owned(), Some("cit".to_owned()))
        );
        assert_eq!(
            (&*settings.region, settings.path_style),
            ("eu-central-1", Some(true))
        );
        assert_eq!(
            settings.endpoint.as_deref(),
            Some("http://ceph:7480"),
            "its section of services counts first"
        );

        let vars = [
            ("AWS_ACCESS_KEY_ID", "E"),
            ("AWS_SECRET_ACCESS_KEY", "es"),
            ("AWS_SESSION_TOKEN", "et"),
            ("AWS_DEFAULT_REGION", "b"),
            ("AWS_REGION", "a"),
            ("AWS_ENDPOINT_URL", "http://one"),
            ("AWS_ENDPOINT_URL_S3", "http://two/"),
        ];
        let settings = read(&vars).unwrap();
        assert_eq!(
            who(&settings),
            ("E".to_owned(), "es".to_owned(), Some("et".to_owned()))
        );
        assert_eq!(
            (&*settings.region, settings.endpoint.as_deref()),
            ("a", Some("http://two"))
        );
    }

    #[test]
    fn what_cannot_be_followed_is_said_with_a_way_around() {
        let settings = read(&[("AWS_PROFILE", "sso")]).unwrap();
        assert_eq!(settings.credentials, None);
        assert!(settings.why_none.unwrap().contains("sso_session"));
        let error = read(&[("AWS_PROFILE", "nobody")]).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().contains("nobody")),
            (Kind::Usage, true)
        );
    }

    #[test]
    fn a_secret_is_not_printed() {
        let settings = read(&[("AWS_PROFILE", "ci")]).unwrap();
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("CI") && !shown.contains("cis") && !shown.contains("cit"),
            "{shown}"
        );
    }
}
