//! Pods, Services and DNS, and that nothing leaves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use anyhow::{Context, Result};
use e2e::{IDLE, Kubectl, PATIENCE, SAY_HOSTNAME, image, output_of, pod};
use rig::Rig;
use serde_json::json;

fn fetch(host: &str) -> String {
    format!(
        "import urllib.request; print(urllib.request.urlopen('http://{host}', timeout=5).read().decode(), end='')"
    )
}

#[tokio::test]
async fn pods_on_different_nodes_reach_each_other() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "traffic").await?;
    kubectl.apply(&pod("one", Some("node-1"), SAY_HOSTNAME)?.to_string())?;
    kubectl.apply(&pod("two", Some("node-2"), SAY_HOSTNAME)?.to_string())?;
    kubectl.wait_ready(&["one", "two"])?;
    for (from, to) in [("one", "two"), ("two", "one")] {
        let address = kubectl.run(&["get", "pod", to, "--output", "jsonpath={.status.podIP}"])?;
        kubectl.wait_until("the server listens", || {
            Ok(kubectl.exec(from, &["python3", "-c", &fetch(&address)])?.trim() == to)
        })?;
    }
    Ok(())
}

#[tokio::test]
async fn services_and_pods_have_names_and_addresses_that_work() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "names").await?;
    let namespace = kubectl.namespace();
    kubectl.apply(&format!(
        "{}\n---\n{}\n---\n{}\n---\n{}",
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "each"},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "web"}, "ports": [{"port": 80}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "all"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 80}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": 2, "serviceName": "each", "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "main", "image": image("jail")?, "command": ["bash", "-c", SAY_HOSTNAME],
                        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
                    }],
                }},
            },
        }),
        pod("client", None, IDLE)?,
    ))?;
    kubectl.wait_ready(&["web-0", "web-1", "client"])?;

    for pod in ["web-0", "web-1"] {
        let name = format!("{pod}.each.{namespace}.svc.cluster.local");
        let address = kubectl.run(&["get", "pod", pod, "--output", "jsonpath={.status.podIP}"])?;
        let resolve = format!("import socket; print(socket.gethostbyname('{name}'))");
        kubectl.wait_until("the pod has its name", || {
            Ok(kubectl.exec("client", &["python3", "-c", &resolve])?.trim() == address)
        })?;
    }
    let answers = |host: &str| -> Result<bool> {
        let answer = kubectl.exec("client", &["python3", "-c", &fetch(host)])?;
        Ok(["web-0", "web-1"].contains(&answer.trim()))
    };
    kubectl.wait_until("the Service answers by its short name", || answers("all:8080"))?;
    kubectl.wait_until("the headless Service answers", || answers("each"))?;

    let port = kubectl.run(&["get", "service", "all", "--output", "jsonpath={.spec.ports[0].nodePort}"])?;
    for node in ["10.10.0.11", "10.10.0.12"] {
        kubectl.wait_until("the NodePort answers from a pod", || answers(&format!("{node}:{port}")))?;
    }
    // Also from the node itself, where no pod is in between.
    let script =
        format!("exec 3<>/dev/tcp/10.10.0.11/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    let answer = output_of(rig.exec("node-2", "bash")?.args(["-c", &script]), None)?;
    assert!(answer.contains("web-"), "{answer}");
    let unknown = "import socket; socket.gethostbyname('no-such-name.invalid')";
    let error = kubectl.exec("client", &["python3", "-c", unknown]).unwrap_err().to_string();
    assert!(
        error.contains("Name or service not known"),
        "an unknown name fails at once and for good: {error}"
    );
    Ok(())
}

#[tokio::test]
async fn nothing_can_leave_the_rig() -> Result<()> {
    let rig = Rig::shared().await?;
    for node in ["node-1", "node-2"] {
        let defaults = output_of(rig.exec(node, "ip")?.args(["route", "show", "default"]), None)?;
        assert_eq!(defaults, "", "a default route on {node}");
        // Documentation addresses; asking for the route sends nothing.
        let error = output_of(rig.exec(node, "ip")?.args(["route", "get", "192.0.2.1"]), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("Network is unreachable"), "{error}");
        let interfaces =
            output_of(rig.exec(node, "ip")?.args(["-brief", "link", "show", "type", "veth"]), None)?;
        assert!(interfaces.lines().any(|line| line.starts_with("eth0@")), "{interfaces}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_reaches_into_pods() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "kubectl").await?;
    kubectl
        .apply(&pod("web", Some("node-2"), &format!("echo said-by-the-pod; {SAY_HOSTNAME}"))?.to_string())?;
    kubectl.wait_ready(&["web"])?;

    assert_eq!(kubectl.exec("web", &["hostname"])?.trim(), "web");
    assert!(kubectl.run(&["logs", "web"])?.contains("said-by-the-pod"));

    let dir = std::env::temp_dir().join(format!("rig-e2e-copy-{}", std::process::id()));
    std::fs::write(&dir, "copied\n")?;
    kubectl.run(&["cp", &dir.display().to_string(), "web:/tmp/copy"])?;
    std::fs::remove_file(&dir)?;
    assert_eq!(kubectl.exec("web", &["cat", "/tmp/copy"])?, "copied\n");

    kubectl.wait_until("the server listens", || {
        Ok(kubectl.exec("web", &["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80"]).is_ok())
    })?;
    let mut forward =
        kubectl.command()?.args(["port-forward", "pod/web", ":80"]).stdout(Stdio::piped()).spawn()?;
    let answer = through_forward(&mut forward);
    forward.kill()?;
    forward.wait()?;
    assert!(answer?.ends_with("web\n"));
    Ok(())
}

fn through_forward(forward: &mut std::process::Child) -> Result<String> {
    let mut line = String::new();
    // Kept open: kubectl says more, and ends when nobody listens.
    let mut output = BufReader::new(forward.stdout.take().context("no output")?);
    output.read_line(&mut line)?;
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    let port: u16 = port.with_context(|| format!("no port in {line:?}"))?.parse()?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    // Not to the end of the stream: containerd passes the server's close on only after the client's.
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    while !answer.ends_with("\r\n\r\n") {
        reader.read_line(&mut answer)?;
    }
    reader.read_line(&mut answer)?;
    Ok(answer)
}
