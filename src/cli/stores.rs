//! Options for roots in object stores, and how these roots are followed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::mirror::{Address, ListingBounds, Mirror, Options, Settings};

/// Options for following object stores.
#[derive(Debug, clap::Args)]
pub(super) struct Stores {
    /// List each root in an object store this often, or less often if needed to stay within --s3-requests
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    s3_every: Duration,
    /// Send at most this many list requests a minute for each of these roots; each lists 1,000 objects
    #[arg(long, value_name = "NUMBER", default_value_t = 60, value_parser = requests)]
    s3_requests: u32,
    /// Cache at most this much of each of these roots on this machine, such as 500MB or 20GB
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = size)]
    s3_cache: u64,
}

impl Stores {
    /// Follows the object stores among `roots`, and returns all roots as directories.
    ///
    /// # Errors
    /// An address is invalid, the settings of its cloud can't be used, or the cache can't be written.
    pub(super) fn follow(
        &self,
        roots: Vec<PathBuf>,
        cache: Option<&Path>,
    ) -> Result<(Vec<PathBuf>, Vec<Arc<Mirror>>)> {
        let mut mirrors: Vec<Arc<Mirror>> = Vec::new();
        let mut dirs = Vec::new();
        for root in roots {
            let Some(text) = root.to_str().filter(|text| Address::is_meant(text)) else {
                dirs.push(root);
                continue;
            };
            let address = Address::parse(text)?;
            // A root that is named twice is followed once.
            if mirrors
                .iter()
                .any(|mirror| mirror.address() == address.to_string())
            {
                continue;
            }
            let (cache, limit) = (cache.map(Path::to_owned), self.s3_cache);
            let (every, budget, listing) =
                (self.s3_every, self.s3_requests, ListingBounds::default());
            let options = Options {
                cache,
                limit,
                every,
                budget,
                listing,
            };
            let mirror = Arc::new(Mirror::follow(
                &address,
                Settings::read(&address)?,
                options,
            )?);
            dirs.push(mirror.dir().to_owned());
            mirrors.push(mirror);
        }
        Ok((dirs, mirrors))
    }
}

/// Returns an error if `path` is meant as an address of an object store, for commands that read
/// only directories.
pub(super) fn refuse(path: &Path) -> Result<()> {
    let Some(text) = path.to_str().filter(|text| Address::is_meant(text)) else {
        return Ok(());
    };
    Address::parse(text)?;
    let what =
        format!("{text} is in an object store, which only `board serve` and `board mcp` read");
    Err(Error::new(Kind::Usage, what).hint(format!("serve it instead: board serve {text}")))
}

fn requests(text: &str) -> std::result::Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "must be a whole number ≥ 1".to_owned())
}

pub(super) fn size(text: &str) -> std::result::Result<u64, String> {
    let text = text.trim();
    let letters = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(letters);
    let factor = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => Some(1.0),
        "K" | "KB" => Some(1e3),
        "M" | "MB" => Some(1e6),
        "G" | "GB" => Some(1e9),
        "T" | "TB" => Some(1e12),
        _ => None,
    };
    let bytes = number
        .trim()
        .parse::<f64>()
        .ok()
        .zip(factor)
        .map(|(number, factor)| number * factor);
    let bytes = bytes.filter(|bytes| (1e6..=1e15).contains(bytes));
    bytes
        .map(|bytes| bytes as u64)
        .ok_or_else(|| "must be a size of at least 1MB, such as 500MB or 20GB".to_owned())
}

/// Parses a positive number of seconds.
pub(super) fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "must be a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("500MB", 500_000_000),
            ("1.5 gb", 1_500_000_000),
            ("2000000", 2_000_000),
            ("1T", 1_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "GB", "1", "-5GB", "5 parsecs", "NaN", "inf", "1e99GB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
