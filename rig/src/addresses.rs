//! Every address and port of a rig. A rig has its own network namespaces, so all rigs use the same ones.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses of Services.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";
/// The first Service address, which is the API server's.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The Service address of the cluster's DNS.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Addresses of pods; each node has a /24 of it.
pub const POD_CIDR: &str = "10.244.0.0/16";
/// The network that joins the control plane and the nodes.
pub const NODE_PREFIX_LENGTH: u8 = 24;
/// The control plane's end of the bridge: API server and DNS.
pub const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// Port of the API server inside the rig.
pub const API_SERVER_PORT: u16 = 6443;
/// The suffix of Service names.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// More nodes than a machine can carry, and few enough for one address block each.
pub const MAX_NODES: u8 = 100;

/// Address of the node with this number (from 1).
pub fn node(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 10, 0, 10 + number)
}

/// Addresses of the pods on the node with this number.
pub fn pod_cidr(number: u8) -> String {
    format!("10.244.{number}.0/24")
}

/// Where the API server is reached inside the rig.
pub fn api_server_url() -> String {
    format!("https://{CONTROL_PLANE}:{API_SERVER_PORT}")
}

/// All names and addresses that a client may call the API server by.
pub fn api_server_names() -> Vec<crate::pki::Name> {
    use crate::pki::Name::{Dns, Ip};
    let service = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    service
        .into_iter()
        .chain(["localhost"])
        .map(|name| Dns(name.to_string()))
        .chain(
            [Ipv4Addr::LOCALHOST, KUBERNETES_SERVICE, CONTROL_PLANE].map(|address| Ip(IpAddr::V4(address))),
        )
        .collect()
}
