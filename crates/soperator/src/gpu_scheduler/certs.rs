//! `soperator gpu-scheduler certs`.

use std::io::Write;
use std::path::PathBuf;

use gpu_scheduler::certs::{self, Order};
use jiff::Timestamp;

use crate::cli::Error;

/// Its arguments. The variables are those of the original's script.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the webhook
    #[arg(long, short, value_name = "NAME", env = "NAMESPACE", default_value = "gpu-scheduler-system")]
    namespace: String,
    /// Service of the webhook; the Secret is called after it
    #[arg(long, value_name = "NAME", env = "SERVICE_NAME", default_value = "gpu-scheduler-webhook")]
    service: String,
    /// Folder for the files
    #[arg(long, value_name = "FOLDER", env = "CERT_DIR", default_value = "certs")]
    folder: PathBuf,
    /// How long the certificates last
    #[arg(long, value_name = "NUMBER", default_value_t = 365)]
    days: u32,
    /// Domain of Services in this Kubernetes cluster
    #[arg(long, value_name = "DOMAIN", env = "SOPERATOR_CLUSTER_DOMAIN", default_value = "cluster.local")]
    domain: String,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let order = Order {
        namespace: args.namespace.clone(),
        service: args.service.clone(),
        domain: args.domain.clone(),
        folder: args.folder.clone(),
        days: args.days,
    };
    let [authorities, secret] =
        certs::write(&order, Timestamp::now()).map_err(|error| Error::Refused(error.to_string()))?;
    let (authorities, secret) = (authorities.display(), secret.display());
    writeln!(out, "{authorities}\n{secret}\n")?;
    writeln!(out, "First let the API server trust it, then let the webhook use it:")?;
    writeln!(out, "  helm upgrade ... --set webhook.caBundle=$(base64 -w 0 {authorities})")?;
    Ok(writeln!(out, "  kubectl apply -f {secret}")?)
}
