//! Reads how to reach a store and as whom, from the environment and the files of the AWS tools.
//!
//! Knows no requests. object_store reads the settings of Google and Azure, and gets credentials for web identities,
//! containers and machines. It doesn't read AWS profiles, so board does. For profiles that need more (single sign-on,
//! programs that print keys), errors name a workaround.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::address::{Address, Cloud};
use crate::error::{Error, Kind, Result};

/// The workaround for credentials that board can't get.
const EXPORT: &str =
    "`aws configure export-credentials --format env` prints keys that board understands";
/// The region if none is set.
const REGION: &str = "us-east-1";

/// Variables that select AWS credentials of object_store, and their options. The options have the same names in lower case.
const LOGINS: [&str; 3] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];
const OPTIONS: [&str; 7] = [
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
    "AWS_REQUEST_PAYER",
];

/// AWS keys.
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

/// How requests are authorized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// With AWS keys.
    Keys(Credentials),
    /// As object_store decides.
    Options,
    /// Not at all, which public buckets in AWS accept. If the store refuses and `then_instance` is set, board asks the
    /// metadata service of the machine for credentials. Asking it first takes seconds outside of a cloud.
    Anonymous { then_instance: bool },
    /// With the role of the machine in AWS.
    Instance,
}

/// How to reach a store, and as whom.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(super) login: Login,
    /// Why there are no credentials, if a file has unusable ones.
    pub(super) why_none: Option<String>,
    pub(super) region: String,
    /// The address of the store if it isn't the usual one, without a `/` at the end.
    pub(super) endpoint: Option<String>,
    /// Whether the bucket is part of the path, if that is set.
    pub(super) path_style: Option<bool>,
    /// The account in Azure.
    pub(super) account: Option<String>,
    /// Options of object_store. Some are secrets.
    pub(super) options: Vec<(String, String)>,
    /// Whether to read the settings again when the store refuses.
    pub(super) reread: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.login).finish()
    }
}

impl Settings {
    /// Reads the environment and the files that it names.
    ///
    /// # Errors
    /// The selected profile doesn't exist, or a file can't be read.
    pub(crate) fn read(address: &Address) -> Result<Self> {
        Self::read_with(address.cloud, |name| {
            std::env::var_os(name).filter(|value| !value.is_empty())
        })
    }

    fn read_with(cloud: Cloud, var: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().trim().to_owned());
        let mut settings = Self {
            login: Login::Options,
            why_none: None,
            region: REGION.to_owned(),
            endpoint: None,
            path_style: None,
            account: None,
            options: Vec::new(),
            reread: true,
        };
        match cloud {
            Cloud::Aws => settings.read_aws(&var, &text)?,
            Cloud::Google => settings.endpoint = text("GOOGLE_BASE_URL"),
            Cloud::Azure => {
                settings.endpoint = text("AZURE_STORAGE_ENDPOINT");
                // object_store knows the first name, the tools of Azure the second.
                settings.account =
                    text("AZURE_STORAGE_ACCOUNT_NAME").or_else(|| text("AZURE_STORAGE_ACCOUNT"));
                // The same for the key. If both are set, the first name counts.
                let key = text("AZURE_STORAGE_ACCOUNT_KEY").or_else(|| text("AZURE_STORAGE_KEY"));
                let key = key.map(|key| ("azure_storage_account_key".to_owned(), key));
                settings.options.extend(key);
            }
        }
        let endpoint = settings.endpoint.take();
        settings.endpoint = endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        Ok(settings)
    }

    fn read_aws(
        &mut self,
        var: &impl Fn(&str) -> Option<OsString>,
        text: &impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let home = var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from);
        let file = |name: &str, usual: &str| {
            let named = var(name).map(PathBuf::from);
            let file = named.or_else(|| Some(home.as_ref()?.join(".aws").join(usual)));
            file.map_or_else(|| Ok(Sections::new()), |file| sections(&file))
        };
        let keys = file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let config = file("AWS_CONFIG_FILE", "config")?;
        let selected = text("AWS_PROFILE").or_else(|| text("AWS_DEFAULT_PROFILE"));
        let profile = selected.as_deref().unwrap_or("default");
        let of_keys = keys.get(profile);
        let of_config = config
            .get(&format!("profile {profile}"))
            .or_else(|| config.get(profile));
        if selected.is_some() && of_keys.is_none() && of_config.is_none() {
            let what = format!("the AWS files have no profile {profile}");
            return Err(Error::new(Kind::Usage, what)
                .hint("AWS_PROFILE names a section of ~/.aws/credentials or ~/.aws/config"));
        }
        let of_profile = |name: &str| {
            [of_keys, of_config]
                .into_iter()
                .flatten()
                .find_map(|section| section.get(name))
                .filter(|value| !value.is_empty())
                .cloned()
        };
        let from_env = || {
            Some(Credentials {
                id: text("AWS_ACCESS_KEY_ID")?,
                secret: text("AWS_SECRET_ACCESS_KEY")?,
                session: text("AWS_SESSION_TOKEN"),
            })
        };
        let from_files = || {
            Some(Credentials {
                id: of_profile("aws_access_key_id")?,
                secret: of_profile("aws_secret_access_key")?,
                session: of_profile("aws_session_token"),
            })
        };
        let service = of_profile("services").and_then(|name| {
            config
                .get(&format!("services {name}"))?
                .get("s3.endpoint_url")
        });
        let ignored = text("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|it| is_true(&it));
        self.endpoint = text("AWS_ENDPOINT_URL_S3")
            .or_else(|| text("AWS_ENDPOINT_URL"))
            .or_else(|| service.cloned())
            .or_else(|| of_profile("s3.endpoint_url"))
            .or_else(|| of_profile("endpoint_url"))
            .filter(|_| !ignored);
        self.region = text("AWS_REGION")
            .or_else(|| text("AWS_DEFAULT_REGION"))
            .or_else(|| of_profile("region"))
            .unwrap_or_else(|| REGION.to_owned());
        self.path_style = match of_profile("s3.addressing_style").as_deref() {
            Some("path") => Some(true),
            Some("virtual") => Some(false),
            _ => None,
        };
        let option = |name: &&str| Some((name.to_ascii_lowercase(), text(name)?));
        let logins: Vec<_> = LOGINS.iter().filter_map(option).collect();
        let unusable = [
            "sso_session",
            "sso_start_url",
            "credential_process",
            "role_arn",
            "login_session",
        ];
        let is_on = |name: &str| text(name).is_some_and(|it| is_true(&it));
        self.login = match from_env().or_else(from_files) {
            _ if is_on("AWS_SKIP_SIGNATURE") => Login::Anonymous {
                then_instance: false,
            },
            Some(keys) => Login::Keys(keys),
            None if !logins.is_empty() => Login::Options,
            None => {
                let unusable = unusable.into_iter().find(|name| of_profile(name).is_some());
                self.why_none = unusable.map(|name| {
                    format!(
                        "the profile {profile} has {name}, which board doesn't support; {EXPORT}"
                    )
                });
                let is_aws = self
                    .endpoint
                    .as_ref()
                    .is_none_or(|it| it.contains(".amazonaws.com"));
                let then_instance =
                    is_aws && self.why_none.is_none() && !is_on("AWS_EC2_METADATA_DISABLED");
                Login::Anonymous { then_instance }
            }
        };
        self.options = logins;
        self.options.extend(OPTIONS.iter().filter_map(option));
        Ok(())
    }
}

fn is_true(text: &str) -> bool {
    text == "1" || text.eq_ignore_ascii_case("true")
}

/// The sections of a file. A nested key has the name above it as a prefix: `s3.addressing_style`.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Reads a file; a missing one has no sections.
fn sections(file: &Path) -> Result<Sections> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sections::new()),
        Err(error) => {
            let what = format!("can't read the AWS settings in {}", file.display());
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
            // Names may be quoted, with any blanks between the two words.
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
        Settings::read_with(Cloud::Aws, |name| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            _ => vars
                .iter()
                .find(|(var, _)| *var == name)
                .map(|(_, value)| (*value).into()),
        })
    }

    fn who(settings: &Settings) -> (String, String, Option<String>) {
        let Login::Keys(who) = settings.login.clone() else {
            panic!("no keys: {settings:?}")
        };
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
    fn of_two_keys_of_azure_the_one_that_object_store_knows_counts() {
        let key = |vars: &[(&str, &str)]| {
            let value = |name: &str| vars.iter().find(|(var, _)| *var == name);
            let read = |name: &str| value(name).map(|(_, value)| (*value).into());
            let settings = Settings::read_with(Cloud::Azure, read).unwrap();
            let is_key = |(name, _): &(String, String)| name == "azure_storage_account_key";
            let mut keys = settings.options.into_iter().filter(is_key);
            keys.next_back().map(|(_, value)| value)
        };
        let (known, other) = (
            ("AZURE_STORAGE_ACCOUNT_KEY", "a"),
            ("AZURE_STORAGE_KEY", "b"),
        );
        assert_eq!(key(&[known, other]).as_deref(), Some("a"));
        assert_eq!(key(&[other]).as_deref(), Some("b"));
    }

    #[test]
    fn what_cannot_be_followed_is_said_with_a_way_around() {
        let settings = read(&[("AWS_PROFILE", "sso")]).unwrap();
        let then_instance = false;
        assert_eq!(settings.login, Login::Anonymous { then_instance });
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
