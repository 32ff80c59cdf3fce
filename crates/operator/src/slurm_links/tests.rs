//! Links to a small HTTP server that answers as slurmrestd does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use slurm_client::now;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// Answers while `up`, and counts what it is asked.
#[derive(Clone, Default)]
struct Server {
    url: String,
    up: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, up: Arc::new(true.into()), ..Self::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap_or(0);
                serving.asked.fetch_add(1, Ordering::SeqCst);
                if !serving.up.load(Ordering::SeqCst) {
                    continue;
                }
                let body = answer(&String::from_utf8_lossy(&request[..length]));
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ";
                let _ = stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await;
            }
        });
        server
    }

    fn address(&self) -> slurm_client::Server {
        self.url.parse().unwrap()
    }
}

fn answer(request: &str) -> String {
    let list = if request.contains("/openapi/v3") {
        r#""paths": {"/slurm/v0.0.42/nodes/": {}}"#
    } else if request.contains("/nodes") {
        r#""nodes": [{"name": "a", "state": ["IDLE"]}]"#
    } else if request.contains("/ping") {
        r#""pings": [{"hostname": "ctl", "responding": false}]"#
    } else {
        r#""jobs": []"#
    };
    format!(r#"{{{list}, "meta": {{"slurm": {{"cluster": "one"}}}}}}"#)
}

fn links(slow: Duration) -> SlurmLinks {
    let fast = Duration::from_millis(20);
    let pace = Pace { fast, slow, longest: slow, full: SOON };
    SlurmLinks::with(Box::new(|_, _| String::new()), pace, Timeouts::default())
}

fn key(api: Api) -> LinkKey {
    LinkKey { api, cluster: Key::new("ns", "c") }
}

fn token(text: &str) -> Credential {
    Credential::Token(text.to_string().into())
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let all = async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, all).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// How often "everything" was told.
fn told(links: &SlurmLinks) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    links.subscribe(move |_, changed| {
        if *changed == Changed::Everything {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    count
}

#[tokio::test]
async fn listeners_hear_when_a_link_begins_and_ceases_to_answer() {
    let (server, links) = (Server::start().await, links(Duration::from_millis(100)));
    let told = told(&links);
    let link = links.connect(&key(Api::Nebius), server.address(), token("t"), Some("ONE")).unwrap();
    assert!(link.problem().is_some_and(|problem| problem.contains("first time")));
    until("the first answer", || link.snapshot().is_some() && told.load(Ordering::SeqCst) > 0).await;
    assert_eq!((link.problem(), link.identity()), (None, nodeset::Identity::Proven));
    for up in [false, true] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = told.load(Ordering::SeqCst);
        server.up.store(up, Ordering::SeqCst);
        until("the news", || told.load(Ordering::SeqCst) > before).await;
        assert_eq!(link.problem().is_none(), up);
    }
    // What fails again and again is told once.
    server.up.store(false, Ordering::SeqCst);
    until("it fails", || link.health().failures > 1).await;
    let before = told.load(Ordering::SeqCst);
    until("it fails on", || link.health().failures > 4).await;
    assert_eq!(told.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn after_an_own_write_older_answers_do_not_count_and_the_next_one_is_told() {
    let (server, links) = (Server::start().await, links(SOON));
    let link = links.connect(&key(Api::Nebius), server.address(), token("t"), None).unwrap();
    until("the pause is long", || link.health().looks > 7).await;
    let told = told(&links);
    assert!(link.snapshot().unwrap().asked() >= link.not_before());
    link.wrote();
    assert!(link.snapshot().unwrap().asked() < link.not_before(), "what we wrote is not in it");
    let written = now();
    // Nothing has changed in Slurm, and yet it is told.
    until("the news", || told.load(Ordering::SeqCst) > 0).await;
    assert!(link.snapshot().unwrap().asked() >= link.not_before());
    assert!(now().since(written) < Duration::from_secs(2), "it came soon");
    assert_eq!(link.identity(), nodeset::Identity::Unproven);
}

#[tokio::test]
async fn another_credential_keeps_the_link_and_another_server_does_not() {
    let (server, other) = (Server::start().await, Server::start().await);
    let links = links(Duration::from_millis(100));
    let key = key(Api::Nebius);
    let connect = |server: &Server, text: &str| links.connect(&key, server.address(), token(text), None);
    let link = connect(&server, "one").unwrap();
    until("the first answer", || link.snapshot().is_some()).await;
    assert!(Arc::ptr_eq(&link, &connect(&server, "one").unwrap()));
    assert!(Arc::ptr_eq(&link, &connect(&server, "two").unwrap()));
    assert!(link.snapshot().is_some(), "what is known stays");
    assert_eq!(link.credential(), token("two"));
    assert!(matches!(connect(&server, "\n"), Err(NoLink::Token(_))));
    assert!(!Arc::ptr_eq(&link, &connect(&other, "two").unwrap()));
}

#[tokio::test]
async fn a_link_that_ends_asks_no_more_and_says_why() {
    let (server, links) = (Server::start().await, links(Duration::from_millis(50)));
    let key = key(Api::Slinky);
    let link = links.connect(&key, server.address(), token("t"), None).unwrap();
    until("a ping", || link.pulse().is_some()).await;
    assert_eq!(link.pulse(), Some(Pulse::Down(vec!["ctl".into()])));
    drop(link);
    let told = told(&links);
    for _ in 0..2 {
        links.refuse(&key, "no Secret");
    }
    assert!(links.get(&key).is_none());
    assert_eq!(links.why_not(&key).as_deref(), Some("no Secret"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(told.load(Ordering::SeqCst), 1, "it is told once");
    let asked = server.asked.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.asked.load(Ordering::SeqCst), asked);
    links.forget(&key);
    assert_eq!(links.why_not(&key), None);
}
