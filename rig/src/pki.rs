//! The rig's certificate authorities, certificates and kubeconfigs.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

/// A certificate authority that signs in memory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate chain.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
}

/// What a server certificate is valid for.
#[derive(Clone, Debug)]
pub enum Name {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl Authority {
    /// A new authority that calls itself `name`.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate_pem })
    }

    /// The authority's own certificate, which clients trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// A client certificate; Kubernetes reads the user from the common name and the groups from the organisation.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A server certificate for `names`.
    pub fn server(&self, common_name: &str, names: &[Name]) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        for name in names {
            params.subject_alt_names.push(match name {
                Name::Dns(name) => SanType::DnsName(
                    name.clone().try_into().with_context(|| format!("{name:?} is not a DNS name"))?,
                ),
                Name::Ip(address) => SanType::IpAddress(*address),
            });
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Python's and newer OpenSSL's strict checks want it.
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` into `dir`.
    pub fn write(&self, dir: &Path, name: &str) -> Result<()> {
        write_private(&dir.join(format!("{name}.crt")), &self.certificate_pem)?;
        write_private(&dir.join(format!("{name}.key")), &self.key_pem)
    }
}

/// Writes a file that only its owner reads.
pub fn write_private(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// A kubeconfig (as JSON, which is YAML) with everything embedded.
pub fn kubeconfig(server: &str, authority: &Authority, identity: &Identity) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64.encode(authority.certificate_pem()),
        }}],
        "users": [{"name": "rig", "user": {
            "client-certificate-data": BASE64.encode(&identity.certificate_pem),
            "client-key-data": BASE64.encode(&identity.key_pem),
        }}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig", "namespace": "default"}}],
        "current-context": "rig",
    })
    .to_string()
}

/// The files that a control plane reads: written once per rig or control plane.
pub struct ControlPlaneFiles {
    /// Where the files lie.
    pub dir: PathBuf,
    authority: Authority,
}

/// Group whose members may do everything.
const MASTERS: &str = "system:masters";

impl ControlPlaneFiles {
    /// Makes authorities, certificates and the service-account key in `dir`. The API server answers to `names`.
    pub fn create(dir: &Path, names: &[Name]) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let authority = Authority::new("rig")?;
        let front_proxy = Authority::new("rig-front-proxy")?;
        write_private(&dir.join("ca.crt"), authority.certificate_pem())?;
        write_private(&dir.join("ca.key"), &authority.issuer.key().serialize_pem())?;
        write_private(&dir.join("front-proxy-ca.crt"), front_proxy.certificate_pem())?;
        authority.server("kube-apiserver", names)?.write(dir, "apiserver")?;
        authority
            .client("kube-apiserver-kubelet-client", Some(MASTERS))?
            .write(dir, "apiserver-kubelet-client")?;
        front_proxy.client("front-proxy-client", None)?.write(dir, "front-proxy-client")?;
        let service_accounts = KeyPair::generate()?;
        write_private(&dir.join("sa.key"), &service_accounts.serialize_pem())?;
        write_private(&dir.join("sa.pub"), &service_accounts.public_key_pem())?;
        Ok(Self { dir: dir.to_path_buf(), authority })
    }

    /// The authority that signs clients and servers.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Path of one of the files.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// A kubeconfig for `user` in `group`, as text.
    pub fn kubeconfig_for(&self, server: &str, user: &str, group: Option<&str>) -> Result<String> {
        Ok(kubeconfig(server, &self.authority, &self.authority.client(user, group)?))
    }

    /// The kubeconfig of someone who may do everything.
    pub fn admin_kubeconfig(&self, server: &str) -> Result<String> {
        self.kubeconfig_for(server, "rig-admin", Some(MASTERS))
    }
}
