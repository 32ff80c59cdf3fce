//! Text of files that are not Slurm's.

use slurm::agent::path;

/// Key of the ConfigMap with sshd_config.
pub(crate) const SSHD_CONFIG: &str = "sshd_config";
/// Key of the ConfigMap with the public keys of root.
pub(crate) const AUTHORIZED_KEYS: &str = "authorized_keys";
/// Key of the ConfigMap with limits.conf.
pub(crate) const LIMITS: &str = "limits.conf";
/// Key of the ConfigMap with sysctl.conf.
pub(crate) const SYSCTL: &str = "sysctl.conf";

/// sshd_config. Settings that match no user come first, for sshd takes the first that it finds.
///
/// Sessions begin in the jail. Keys are read before that, so they are named by their places outside.
pub(crate) fn sshd_config(port: u16) -> String {
    let (host_keys, root_keys, jail) = (path::SSHD_KEYS_COPY, path::ROOT_KEYS_COPY, path::JAIL);
    format!(
        "Port {port}
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
AcceptEnv LANG LC_*
X11Forwarding no
AllowTcpForwarding yes
Subsystem sftp internal-sftp
HostKey {host_keys}/ssh_host_rsa_key
HostKey {host_keys}/ssh_host_ecdsa_key
HostKey {host_keys}/ssh_host_ed25519_key
ChrootDirectory {jail}
AuthorizedKeysFile {jail}%h/.ssh/authorized_keys
ClientAliveInterval 3600
ClientAliveCountMax 5
MaxStartups 100:50:300
LoginGraceTime 120
MaxAuthTries 4
LogLevel INFO

Match User root
    AuthorizedKeysFile {root_keys} {jail}%h/.ssh/authorized_keys
"
    )
}

/// limits.conf of a part whose pods run no jobs: the user's, or nothing.
pub(crate) fn limits(custom: Option<&str>) -> String {
    match custom {
        Some(text) if text.ends_with('\n') => text.to_owned(),
        Some(text) => format!("{text}\n"),
        None => "#Empty security limits file\n".to_owned(),
    }
}

/// sysctl.conf of workers.
pub(crate) fn sysctl() -> String {
    "vm.max_map_count=655300\n".to_owned()
}
