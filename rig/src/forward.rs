//! The one way into a rig from outside: a port on this machine's loopback that leads to the API server inside.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};

use crate::addresses;

/// Runs `work` in a thread that lives in the network namespace of process `pid`.
fn in_network_of<T: Send + 'static>(
    pid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))
        .context("cannot open the network namespace of a machine")?;
    let (entered, result) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Of this thread only; sockets belong to the namespace in which they are made.
        let _ = entered.send(setns(namespace, CloneFlags::CLONE_NEWNET));
        work()
    });
    result
        .recv()
        .context("a thread ended early")?
        .context("cannot enter the network namespace of a machine")?;
    Ok(thread)
}

/// Takes a port on loopback.
pub fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
        format!("port {port} on loopback is taken: choose another with --api-port, or 0 for any free one")
    })
}

/// Forwards connections on `listener`, made outside, to `target` inside the namespace of process `pid`, for ever.
pub fn forward(listener: TcpListener, pid: u32, target: SocketAddr) -> Result<()> {
    forward_until(listener, pid, target, std::future::pending()).map(drop)
}

/// The same until `end`, with every connection. Returns the thread that does it.
pub fn forward_until(
    listener: TcpListener,
    pid: u32,
    target: SocketAddr,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<std::thread::JoinHandle<Result<()>>> {
    listener.set_nonblocking(true)?;
    in_network_of(pid, move || -> Result<()> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async move {
            tokio::select! {
                failed = serve(listener, target) => failed,
                () = end => Ok(()),
            }
        })
    })
}

async fn serve(listener: TcpListener, target: SocketAddr) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut outside, _) = listener.accept().await?;
        tokio::spawn(async move {
            // The client sees a closed connection either way.
            if let Ok(mut inside) = tokio::net::TcpStream::connect(target).await {
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            }
        });
    }
}

/// Asks the cluster's DNS, from the namespace of process `pid`, for the API server's name.
pub async fn dns_answers(pid: u32) -> Result<()> {
    let thread = in_network_of(pid, || -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        let name = format!("kubernetes.default.svc.{}", addresses::CLUSTER_DOMAIN);
        socket.send_to(&dns_query(&name), (addresses::CONTROL_PLANE, 53))?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).context("no answer from DNS")?;
        if !dns_answer_holds(&answer[..length], addresses::KUBERNETES_SERVICE) {
            bail!("DNS does not know {name} yet");
        }
        Ok(())
    })?;
    tokio::task::spawn_blocking(move || thread.join()).await?.unwrap_or_else(|_| bail!("asking DNS panicked"))
}

/// A query for the address (type A, class IN) of `name`.
fn dns_query(name: &str) -> Vec<u8> {
    let mut packet = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}

/// Whether an answer without error ends in `address`, as one with a single address record does.
fn dns_answer_holds(answer: &[u8], address: Ipv4Addr) -> bool {
    answer.len() > 12
        && answer[3] & 0x0f == 0
        && answer[7] > 0
        && answer.windows(4).any(|four| four == address.octets())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_the_flag_that_helps() {
        let taken = listen(0).unwrap();
        let error = listen(taken.local_addr().unwrap().port()).unwrap_err().to_string();
        assert!(error.contains("--api-port"), "{error}");
    }

    #[test]
    fn an_error_from_dns_is_not_an_answer() {
        let mut answer = dns_query("a.b");
        answer.extend([10, 96, 0, 1]);
        answer[7] = 1;
        assert!(dns_answer_holds(&answer, addresses::KUBERNETES_SERVICE));
        answer[3] = 3;
        assert!(!dns_answer_holds(&answer, addresses::KUBERNETES_SERVICE), "NXDOMAIN");
    }
}
