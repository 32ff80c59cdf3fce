//! The flags that all roles share, made from the table of settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::setting::{BOOL, SETTINGS};

const CONFIG: &str = "config";

/// The flags that were given. A role takes them in with `#[command(flatten)]`.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The file with settings.
    pub config: Option<PathBuf>,
    /// Flag (without dashes) to value, unread.
    given: BTreeMap<&'static str, String>,
}

impl Flags {
    /// The value of a flag, if it was given and is not empty.
    pub(super) fn get(&self, flag: &str) -> Option<&str> {
        self.given.get(flag).map(String::as_str).filter(|value| !value.is_empty())
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().flat_map(|setting| [setting.flag, setting.port_flag]).flatten()
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let mut command = command.arg(
            Arg::new(CONFIG)
                .long(CONFIG)
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("File with settings (YAML); flags and environment variables win over it"),
        );
        for setting in SETTINGS {
            if let Some(flag) = setting.flag {
                let mut about = format!("{} [default: {}]", setting.about, setting.default);
                if let Some(env) = setting.env {
                    about.push_str(&format!(" [env: {env}]"));
                }
                let mut arg = Arg::new(flag).long(flag).value_name(setting.value).help(about);
                if setting.value == BOOL {
                    // As in Go: the flag alone means true, and a value needs `=`.
                    arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
                }
                command = command.arg(arg);
            }
            if let (Some(port), Some(flag)) = (setting.port_flag, setting.flag) {
                let about = format!("Short for --{flag} :PORT");
                command = command
                    .arg(Arg::new(port).long(port).value_name("PORT").help(about).conflicts_with(flag));
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if let Some(config) = matches.get_one::<PathBuf>(CONFIG) {
            self.config = Some(config.clone());
        }
        for name in names() {
            if let Some(value) = matches.get_one::<String>(name) {
                self.given.insert(name, value.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Role {
        #[command(flatten)]
        flags: Flags,
        /// A flag of the role's own.
        #[arg(long)]
        own: Option<String>,
        rest: Vec<String>,
    }

    fn parse(words: &[&str]) -> Result<Role, clap::Error> {
        Role::try_parse_from([&["role"], words].concat())
    }

    #[test]
    fn switches_are_read_as_go_reads_them() {
        let role = parse(&["--leader-elect", "--metrics-secure=false", "--own", "x", "word"]).unwrap();
        assert_eq!(role.flags.get("leader-elect"), Some("true"));
        assert_eq!(role.flags.get("metrics-secure"), Some("false"));
        assert_eq!(role.flags.get("enable-http2"), None);
        assert_eq!((role.own.as_deref(), role.rest), (Some("x"), vec!["word".to_string()]));
    }

    #[test]
    fn values_need_no_equals_sign() {
        let role = parse(&["--log-level", "debug", "--operator-namespace=", "--config", "f.yaml"]).unwrap();
        assert_eq!(role.flags.get("log-level"), Some("debug"));
        assert_eq!(role.flags.get("operator-namespace"), None, "empty is as good as not given");
        assert_eq!(role.flags.config, Some("f.yaml".into()));
    }

    #[test]
    fn a_flag_twice_or_an_address_and_a_port_are_refused() {
        assert!(parse(&["--log-level=info", "--log-level=warn"]).is_err());
        assert!(parse(&["--metrics-port=1", "--metrics-bind-address=:2"]).is_err());
    }
}
