//! A webhook that takes no time itself: whatever it is asked, its answer is one that ours gave. What the API server spends on calling
//! it, nobody can save.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use engine::admission::{Policy, issue};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::wire::Message;

/// Where it listens, and whom to trust.
pub(crate) struct Idle {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) bundle: String,
}

impl Idle {
    /// Serves until the program ends. `answer` is a whole review, whose uid is replaced by that of each question.
    pub(crate) async fn start(answer: &[u8]) -> Result<Self> {
        let issued = issue(&Policy::for_names(vec!["127.0.0.1".into()]), None, jiff::Timestamp::now())?;
        let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .context("the certificate")?;
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).context("the key")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let uid = uid(answer).context("the answer has no uid")?;
        let (before, after) = (answer[..uid.start].to_vec(), answer[uid.end..].to_vec());
        let parts: Arc<(Vec<u8>, Vec<u8>)> = Arc::new((before, after));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, parts) = (acceptor.clone(), Arc::clone(&parts));
                // An API server that hangs up ends it, which is no error.
                tokio::spawn(async move { serve(stream, &acceptor, &parts).await });
            }
        });
        Ok(Self { address, bundle: issued.authorities })
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    (before, after): &(Vec<u8>, Vec<u8>),
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let mut read = Vec::with_capacity(16 << 10);
    loop {
        let Some(message) = Message::in_bytes(&read)? else {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let uid = message.body[uid(message.body).context("a review without uid")?].to_vec();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            before.len() + uid.len() + after.len()
        );
        stream.write_all(&[head.as_bytes(), before, &uid, after].concat()).await?;
        stream.flush().await?;
        let end = message.end;
        read.drain(..end);
    }
}

/// Where the first uid of a review is: that of the question, which stands before the object.
fn uid(review: &[u8]) -> Option<std::ops::Range<usize>> {
    const KEY: &[u8] = b"\"uid\":\"";
    let start = review.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
    let length = review[start..].iter().position(|byte| *byte == b'"')?;
    Some(start..start + length)
}
