//! `soperator slurm token`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use slurm::{Claims, Key, KeyKind, sign_token};
use slurm_client::{random_bytes, unix_time};

use super::{Output, failed};
use crate::cli::Error;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The cluster's JWT key (jwt_hs256.key)
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// The Slurm user that the token speaks for
    #[arg(long, value_name = "USER", default_value = "root")]
    user: String,
    /// How long the token is good: 900, 15m, 12h or 30d
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = lifetime)]
    lifetime: Duration,
    /// The form of the answer; the table is the line that `scontrol token` prints
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let bytes =
        std::fs::read(&args.key_file).map_err(|error| Error::Unreadable(args.key_file.clone(), error))?;
    let key = Key::from_bytes(KeyKind::Jwt, bytes)
        .map_err(|error| failed(format!("{}: {error}", args.key_file.display())))?;
    let entropy = random_bytes().map_err(failed)?;
    let claims = Claims::new(&args.user, "soperator", unix_time(), args.lifetime, entropy);
    let token = sign_token(&claims, &key).map_err(failed)?;
    // The one place that shows a token: the user asked for it.
    let token = String::from_utf8_lossy(token.expose());
    match args.output {
        Output::Table => writeln!(out, "SLURM_JWT={token}")?,
        Output::Json => {
            let answer = json!({ "token": token, "user": claims.user, "expiresAt": claims.expires_at });
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write seconds, or 15m, 12h, 30d");
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => 1,
    };
    match number.checked_mul(seconds) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in
            [("900", 900), ("900s", 900), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)]
        {
            assert_eq!(lifetime(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "0", "m", "1w", "-1", "1.5h", "99999999999999999999", "9999999999999999d"] {
            assert!(lifetime(text).unwrap_err().contains("write seconds, or 15m"), "{text}");
        }
    }
}
