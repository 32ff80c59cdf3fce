//! Where a slurmrestd listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

/// The port of slurmrestd, unless another is named.
const DEFAULT_PORT: u16 = 6820;

/// The address of a slurmrestd: `http://HOST[:PORT]`, `https://HOST[:PORT]` or `unix:/PATH`.
///
/// ```
/// use slurm_client::Server;
///
/// let server: Server = "http://slurm-rest".parse()?;
/// assert_eq!(server.to_string(), "http://slurm-rest:6820");
/// # Ok::<(), slurm_client::ServerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub(crate) target: Target,
    /// What stands before every path; without a slash at its end.
    pub(crate) prefix: String,
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// What is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of slurmrestd; write http://HOST:6820, https://HOST:6820 or unix:/PATH")]
pub struct ServerError(String);

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let wrong = || ServerError(text.into());
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///path` means the same.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong());
            }
            return Ok(Self { target: Target::Unix(path.into()), prefix: String::new() });
        }
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        // Neither a user nor a query has a meaning here, and a password would end up in messages.
        if authority.as_str().contains('@') || uri.query().is_some() || authority.host().is_empty() {
            return Err(wrong());
        }
        // What stands for a port and is none would else be passed over.
        if authority.port_u16().is_none() && authority.as_str() != authority.host() {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { target: Target::Tcp { host, port, tls }, prefix })
    }
}

impl Server {
    /// Host and port, if plain HTTP leads there and nothing stands before its paths: then a proxy can take its place.
    pub fn plain_http(&self) -> Option<(&str, u16)> {
        match &self.target {
            Target::Tcp { host, port, tls: false } if self.prefix.is_empty() => Some((host, *port)),
            Target::Tcp { .. } | Target::Unix(_) => None,
        }
    }

    /// The address in requests. For a Unix socket the host is only a name in a header.
    pub(crate) fn authority(&self) -> String {
        match &self.target {
            Target::Unix(_) => "localhost".into(),
            Target::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Target::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Tcp { tls, .. } => {
                let scheme = if *tls { "https" } else { "http" };
                write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("http://a", "http://a:6820"),
            ("http://a:80/", "http://a:80"),
            ("https://a:443/slurm-api/", "https://a:443/slurm-api"),
            ("http://127.0.0.1:6820", "http://127.0.0.1:6820"),
            ("http://[::1]:6820", "http://[::1]:6820"),
            ("unix:/run/slurmrestd.sock", "unix:/run/slurmrestd.sock"),
            ("unix:///run/slurmrestd.sock", "unix:/run/slurmrestd.sock"),
        ] {
            assert_eq!(text.parse::<Server>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn a_proxy_can_stand_in_for_plain_http_only() {
        let plain = |text: &str| {
            let server = text.parse::<Server>().unwrap();
            server.plain_http().map(|(host, port)| (host.to_owned(), port))
        };
        assert_eq!(plain("http://slurm-rest"), Some(("slurm-rest".into(), 6820)));
        assert_eq!(plain("http://slurm-rest:80/"), Some(("slurm-rest".into(), 80)));
        for text in ["https://a", "http://a/slurm-api", "unix:/run/x"] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in [
            "",
            "a:6820",
            "ftp://a",
            "http://",
            "unix:run",
            "http://u:p@a",
            "http://a?x=1",
            "/run/x",
            "http://a:port",
            "http://a:99999",
            "http://a:",
        ] {
            let error = text.parse::<Server>().unwrap_err().to_string();
            assert!(error.contains("write http://HOST:6820"), "{text}: {error}");
        }
    }
}
