//! Builds the clients of object_store from the settings.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;

use super::address::{Address, Cloud};
use super::az::{self, Az};
use super::http::{Connector, Http};
use super::settings::{Login, Settings};
use crate::error::{Error, Kind, Result};

/// A bucket that can be listed page by page.
pub(super) trait Bucket: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Bucket for T {}

/// Builds a client, without sending a request.
pub(super) fn client(
    address: &Address,
    settings: &Settings,
    http: &Arc<Http>,
) -> Result<Arc<dyn Bucket>> {
    let hint = match address.cloud {
        Cloud::Aws => "AWS_PROFILE selects the settings of AWS",
        Cloud::Google => "GOOGLE_APPLICATION_CREDENTIALS names a file with credentials",
        Cloud::Azure => "AZURE_STORAGE_ACCOUNT_NAME is the name before .blob.core.windows.net",
    };
    build(address, settings, http).map_err(|error| {
        let what = format!("the settings for {address} can't be used");
        Error::new(Kind::Usage, what).because(error).hint(hint)
    })
}

fn build(
    address: &Address,
    settings: &Settings,
    http: &Arc<Http>,
) -> object_store::Result<Arc<dyn Bucket>> {
    // The builders have no common trait.
    macro_rules! configured {
        ($builder:expr) => {{
            let once = RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            };
            let connector = Connector {
                http: Arc::clone(http),
                cloud: address.cloud,
                settings: settings.clone(),
            };
            let mut builder = $builder.with_retry(once).with_http_connector(connector);
            for (name, value) in &settings.options {
                builder = builder.with_config(name.parse()?, value);
            }
            builder
        }};
    }
    let Target { origin, path, .. } = target(address, settings);
    let (bucket, endpoint) = (&*address.bucket, format!("{origin}{path}"));
    match address.cloud {
        Cloud::Aws => {
            let mut builder = AmazonS3Builder::new()
                .with_bucket_name(bucket)
                .with_region(&settings.region)
                .with_endpoint(endpoint)
                // The endpoint has the bucket already. This option keeps object_store from adding it.
                .with_virtual_hosted_style_request(true)
                .with_skip_signature(matches!(settings.login, Login::Anonymous { .. }));
            if let Login::Keys(keys) = &settings.login {
                builder = builder
                    .with_access_key_id(&keys.id)
                    .with_secret_access_key(&keys.secret);
                builder = match &keys.session {
                    Some(session) => builder.with_token(session),
                    None => builder,
                };
            }
            Ok(Arc::new(configured!(builder).build()?))
        }
        Cloud::Google => {
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_base_url(&endpoint);
            Ok(Arc::new(configured!(builder).build()?))
        }
        Cloud::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_endpoint(endpoint);
            if let Some(account) = &settings.account {
                builder = builder.with_account(account);
            }
            let mut builder = configured!(builder);
            if az::is_chosen(&builder) {
                builder = builder.with_credentials(Arc::new(Az::new()));
            }
            Ok(Arc::new(builder.build()?))
        }
    }
}

/// Where requests go.
#[derive(Debug)]
pub(super) struct Target {
    /// Scheme and host.
    pub(super) origin: String,
    pub(super) host: String,
    /// The host and the path of the endpoint. Two accounts of Azure may share a host and differ in the path.
    pub(super) store: String,
    /// The part of the path before that of object_store.
    path: String,
}

impl Target {
    /// Returns whether requests go over TLS.
    pub(super) fn is_tls(&self) -> Result<bool> {
        let whole = format!("{}{}", self.origin, self.path);
        let uri = whole.parse::<http::Uri>().unwrap_or_default();
        // A name and a password would be shown with every error.
        let has_user = self.host.contains('@');
        let is_plain = !has_user && !whole.contains([' ', '?', '#']);
        match uri.scheme_str().filter(|_| is_plain) {
            Some("https") => Ok(true),
            Some("http") => Ok(false),
            _ => {
                let what = "the store's endpoint must be a URL with only a host and a path";
                Err(Error::new(Kind::Usage, what)
                    .hint("an endpoint looks like https://s3.example.com or http://127.0.0.1:9000"))
            }
        }
    }
}

/// Works out where requests go.
pub(super) fn target(address: &Address, settings: &Settings) -> Target {
    let bucket = &address.bucket;
    let usual = || match address.cloud {
        Cloud::Aws => {
            let region = &settings.region;
            let china = if region.starts_with("cn-") { ".cn" } else { "" };
            format!("https://s3.{region}.amazonaws.com{china}")
        }
        Cloud::Google => "https://storage.googleapis.com".to_owned(),
        Cloud::Azure => {
            let account = settings.account.as_deref().unwrap_or_default();
            format!("https://{account}.blob.core.windows.net")
        }
    };
    let endpoint = settings.endpoint.clone().unwrap_or_else(usual);
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", &endpoint));
    let (host, below) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(host, below)| {
            (host, format!("/{below}"))
        });
    // Certificates of AWS cover one name below the host, and the names of older buckets don't fit a host.
    let fits_host = bucket
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    let in_path = settings.path_style.unwrap_or(settings.endpoint.is_some()) || !fits_host;
    let host = match (address.cloud, in_path) {
        (Cloud::Aws, false) => format!("{bucket}.{host}"),
        _ => host.to_owned(),
    };
    let path = match (address.cloud, in_path) {
        (Cloud::Aws, true) => format!("{below}/{bucket}"),
        _ => below.clone(),
    };
    Target {
        origin: format!("{scheme}://{host}"),
        store: format!("{host}{below}"),
        host,
        path,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mirror::http::Patience;
    use crate::mirror::store::Store;

    fn settings(region: &str, endpoint: Option<&str>, path_style: Option<bool>) -> Settings {
        let (region, endpoint) = (region.to_owned(), endpoint.map(str::to_owned));
        Settings {
            login: Login::Anonymous {
                then_instance: false,
            },
            why_none: None,
            region,
            endpoint,
            path_style,
            account: Some("acct".to_owned()),
            options: Vec::new(),
            reread: false,
        }
    }

    #[test]
    fn the_bucket_stands_in_the_host_of_aws_and_in_the_path_of_others() {
        let whole = |bucket: &str, settings: &Settings| {
            let target = target(
                &Address::parse(&format!("s3://{bucket}")).unwrap(),
                settings,
            );
            format!("{}{}", target.origin, target.path)
        };
        let aws = settings("eu-west-1", None, None);
        assert_eq!(
            whole("runs", &aws),
            "https://runs.s3.eu-west-1.amazonaws.com"
        );
        assert_eq!(whole("a.b", &aws), "https://s3.eu-west-1.amazonaws.com/a.b");
        assert_eq!(
            whole("Old_Runs", &aws),
            "https://s3.eu-west-1.amazonaws.com/Old_Runs"
        );
        assert_eq!(
            whole("runs", &settings("cn-north-1", None, None)),
            "https://runs.s3.cn-north-1.amazonaws.com.cn"
        );
        let minio = |style| settings("us-east-1", Some("http://127.0.0.1:9000"), style);
        assert_eq!(whole("runs", &minio(None)), "http://127.0.0.1:9000/runs");
        assert_eq!(
            whole("runs", &minio(Some(false))),
            "http://runs.127.0.0.1:9000"
        );
        assert_eq!(
            whole("runs", &settings("a", Some("https://x/s3"), None)),
            "https://x/s3/runs"
        );
    }

    #[test]
    fn a_store_is_identified_by_its_host_and_the_path_of_the_endpoint() {
        let store = |address: &str, endpoint: Option<&str>| {
            let settings = settings("eu-west-1", endpoint, None);
            target(&Address::parse(address).unwrap(), &settings).store
        };
        // Caches of earlier versions were identified by the host alone.
        for (address, endpoint, host) in [
            ("s3://runs", None, "runs.s3.eu-west-1.amazonaws.com"),
            ("s3://runs", Some("http://127.0.0.1:9000"), "127.0.0.1:9000"),
            ("gs://runs", None, "storage.googleapis.com"),
            ("az://runs", None, "acct.blob.core.windows.net"),
        ] {
            assert_eq!(store(address, endpoint), host);
        }
        let account = |name| store("az://runs", Some(&format!("http://x:10000/{name}")));
        assert_eq!(account("one"), "x:10000/one");
        assert_ne!(account("one"), account("two"));
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_without_its_secrets() {
        for wrong in [
            "127.0.0.1:9000",
            "ftp://x",
            "http://",
            "http://me:secret@x",
            "http://a b",
            "http://x/a b",
            "http://x?a=b",
            "http://x#a",
        ] {
            let address = Address::parse("s3://runs").unwrap();
            let settings = settings("a", Some(wrong), None);
            let long = Duration::from_secs(30);
            let patience = Patience {
                connect: long,
                head: long,
                piece: long,
            };
            let error = Store::new(address, settings, patience, long).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
