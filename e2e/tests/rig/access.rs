//! Who may do what: RBAC, service accounts and admission webhooks.

use std::net::Ipv4Addr;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use e2e::{IDLE, Kubectl, output_of, pod};
use rig::Rig;
use rig::pki::{Authority, Name};
use serde_json::json;

/// Asks the API server with the pod's own token and prints the status.
const LIST_PODS: &str = r#"
import ssl, urllib.request, urllib.error
base = "/var/run/secrets/kubernetes.io/serviceaccount/"
namespace, token = open(base + "namespace").read(), open(base + "token").read()
url = f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
try:
    print(urllib.request.urlopen(request, context=ssl.create_default_context(cafile=base + "ca.crt")).status)
except urllib.error.HTTPError as error:
    print(error.code)
"#;

#[tokio::test]
async fn a_pod_may_do_what_its_service_account_may() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "rbac").await?;
    kubectl.apply(&pod("client", None, IDLE)?.to_string())?;
    kubectl.wait_ready(&["client"])?;
    let status =
        || Ok::<_, anyhow::Error>(kubectl.exec("client", &["python3", "-c", LIST_PODS])?.trim().to_string());
    assert_eq!(status()?, "403");
    kubectl.run(&["create", "role", "reader", "--verb=list", "--resource=pods"])?;
    let account = format!("--serviceaccount={}:default", kubectl.namespace());
    kubectl.run(&["create", "rolebinding", "reader", "--role=reader", &account])?;
    kubectl.wait_until("the role counts", || Ok(status()? == "200"))
}

/// Refuses every ConfigMap that has the key `forbidden`.
const WEBHOOK: &str = r#"
import http.server, json, ssl
class Review(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        allowed = "forbidden" not in (request["object"].get("data") or {})
        response = {"uid": request["uid"], "allowed": allowed, "status": {"message": "the key forbidden is forbidden"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.HTTPServer(("", 443), Review)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/certs/tls.crt", "/certs/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

#[tokio::test]
async fn the_api_server_asks_an_admission_webhook_in_a_pod() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "webhook").await?;
    let namespace = kubectl.namespace();
    let authority = Authority::new("webhook")?;
    let names = [Name::Dns(format!("review.{namespace}.svc")), Name::Ip(Ipv4Addr::LOCALHOST.into())];
    let identity = authority.server("review", &names)?;
    let mut server = pod("review", None, "exec python3 -c \"$WEBHOOK\"")?;
    server["spec"]["containers"][0]["env"] = json!([{"name": "WEBHOOK", "value": WEBHOOK}]);
    server["spec"]["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": 443}, "periodSeconds": 1});
    server["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "certs", "mountPath": "/certs"}]);
    server["spec"]["volumes"] = json!([{"name": "certs", "secret": {"secretName": "certs"}}]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": identity.certificate_pem, "tls.key": identity.key_pem},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "review"},
        "spec": {"selector": {"app": "review"}, "ports": [{"port": 443}]},
    });
    for object in [secret, service, server] {
        kubectl.apply(&object.to_string())?;
    }
    kubectl.wait_ready(&["review"])?;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [{
            "name": "review.rig.test", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "clientConfig": {
                "service": {"name": "review", "namespace": namespace},
                "caBundle": BASE64.encode(authority.certificate_pem()),
            },
        }],
    });
    kubectl.apply(&configuration.to_string())?;
    kubectl.wait_until("the webhook refuses", || {
        let refused = kubectl.run(&["create", "configmap", "bad", "--from-literal=forbidden=1"]);
        let refused =
            refused.err().is_some_and(|error| error.to_string().contains("the key forbidden is forbidden"));
        if !refused {
            kubectl.run(&["delete", "configmap", "bad", "--ignore-not-found"])?;
        }
        Ok(refused)
    })?;
    kubectl.run(&["create", "configmap", "good", "--from-literal=fine=1"])?;
    kubectl.run(&["delete", "validatingwebhookconfiguration", namespace])?;
    Ok(())
}

#[tokio::test]
async fn helm_three_works_on_the_rig() -> Result<()> {
    let rig = Rig::shared().await?;
    let version = output_of(rig.helm()?.args(["version", "--short"]), None)?;
    assert!(version.starts_with("v3."), "{version}");
    assert_eq!(output_of(rig.helm()?.args(["list", "--short"]), None)?, "");
    Ok(())
}
