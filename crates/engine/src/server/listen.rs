//! Takes ports.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use crate::settings::Address;

/// Takes the port of an address.
pub(super) async fn bind(address: Address) -> std::io::Result<Option<TcpListener>> {
    match address {
        Address::Off => Ok(None),
        Address::At(address) => TcpListener::bind(address).await.map(Some),
        Address::Everywhere(port) => {
            // The IPv6 one takes IPv4 too, but not every machine has IPv6.
            let both = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await;
            match both {
                Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                    TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await.map(Some)
                }
                other => other.map(Some),
            }
        }
    }
}
