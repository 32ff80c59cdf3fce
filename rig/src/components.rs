//! Command lines and configuration files of the programs that the rig runs. Pure: facts in, text out.

use serde_json::{Value, json};

use crate::addresses;
use crate::pki::ControlPlaneFiles;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Program {
    /// What it is called in logs and by `start`.
    pub name: String,
    /// Its file and arguments.
    pub command: Vec<String>,
}

impl Program {
    fn new(name: &str, file: String, arguments: Vec<String>) -> Self {
        Self { name: name.to_string(), command: std::iter::once(file).chain(arguments).collect() }
    }
}

fn kube(bin: &str, name: &str, arguments: Vec<String>) -> Program {
    Program::new(name, format!("{bin}/{name}"), arguments)
}

/// Where a control plane listens and keeps its files.
pub struct ControlPlane<'a> {
    /// Directory of the multi-call program's names.
    pub bin: &'a str,
    /// Certificates and keys.
    pub files: &'a ControlPlaneFiles,
    /// Directory of etcd's data.
    pub etcd_data: String,
    /// etcd's client port on loopback.
    pub etcd_port: u16,
    /// Address the API server listens on.
    pub bind_address: String,
    /// Address it publishes for the `kubernetes` Service; none for a control plane without nodes.
    pub advertise_address: Option<String>,
    /// Its port.
    pub port: u16,
    /// Where to write the audit log and find its policy, if one is wanted.
    pub audit: Option<Audit>,
}

/// Files of the audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Where the policy lies.
    pub policy: String,
    /// Where events go, a JSON object per line.
    pub log: String,
}

/// Every call once, when it is answered, without bodies: enough to count calls.
pub fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    })
}

impl ControlPlane<'_> {
    /// etcd, with its data not synced to disk: a rig's state is not worth the wait.
    pub fn etcd(&self) -> Program {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        kube(
            self.bin,
            "etcd",
            vec![
                format!("--data-dir={}", self.etcd_data),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                "--listen-peer-urls=http://localhost:0".into(),
                "--unsafe-no-fsync".into(),
                "--log-level=warn".into(),
            ],
        )
    }

    /// The API server.
    pub fn api_server(&self) -> Program {
        let file = |name: &str| self.files.path(name);
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--bind-address={}", self.bind_address),
            format!("--secure-port={}", self.port),
            format!("--service-cluster-ip-range={}", addresses::SERVICE_CIDR),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            format!("--kubelet-client-certificate={}", file("apiserver-kubelet-client.crt")),
            format!("--kubelet-client-key={}", file("apiserver-kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--service-account-issuer=https://kubernetes.default.svc.{}", addresses::CLUSTER_DOMAIN),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
            "--requestheader-allowed-names=front-proxy-client".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
            format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
            "--enable-aggregator-routing=true".into(),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            "--allow-privileged=true".into(),
            "--profiling=false".into(),
        ];
        match &self.advertise_address {
            Some(address) => arguments.push(format!("--advertise-address={address}")),
            // The reconciler refuses to publish a loopback address.
            None => arguments.push("--endpoint-reconciler-type=none".into()),
        }
        if let Some(audit) = &self.audit {
            arguments.push(format!("--audit-policy-file={}", audit.policy));
            arguments.push(format!("--audit-log-path={}", audit.log));
        }
        kube(self.bin, "kube-apiserver", arguments)
    }

    /// The controller manager, which talks to the API server by `kubeconfig`.
    pub fn controller_manager(&self, kubeconfig: &str) -> Program {
        let file = |name: &str| self.files.path(name);
        kube(
            self.bin,
            "kube-controller-manager",
            vec![
                format!("--kubeconfig={kubeconfig}"),
                "--secure-port=0".into(),
                "--leader-elect=false".into(),
                "--use-service-account-credentials=true".into(),
                format!("--service-account-private-key-file={}", file("sa.key")),
                format!("--root-ca-file={}", file("ca.crt")),
                format!("--cluster-signing-cert-file={}", file("ca.crt")),
                format!("--cluster-signing-key-file={}", file("ca.key")),
                "--allocate-node-cidrs=false".into(),
                "--node-monitor-period=2s".into(),
                "--node-monitor-grace-period=12s".into(),
                format!("--flex-volume-plugin-dir={}", file("flexvolume")),
                "--kube-api-qps=300".into(),
                "--kube-api-burst=600".into(),
            ],
        )
    }

    /// The scheduler.
    pub fn scheduler(&self, kubeconfig: &str) -> Program {
        kube(
            self.bin,
            "kube-scheduler",
            vec![
                format!("--kubeconfig={kubeconfig}"),
                "--secure-port=0".into(),
                "--leader-elect=false".into(),
                "--kube-api-qps=300".into(),
                "--kube-api-burst=600".into(),
            ],
        )
    }
}

/// cert-manager, from the directory of its program.
pub fn cert_manager(bin: &str, kubeconfig: &str) -> Program {
    Program::new("cert-manager", format!("{bin}/cert-manager"), vec![format!("--kubeconfig={kubeconfig}")])
}

/// kwok, from the directory of its program and the path of its stages: it manages all nodes, and has addresses for a million pods.
pub fn kwok(bin: &str, kubeconfig: &str, stages: &str) -> Program {
    Program::new(
        "kwok",
        format!("{bin}/kwok"),
        vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--config={stages}"),
            "--manage-all-nodes=true".into(),
            "--cidr=10.64.0.0/12".into(),
            "--v=WARN".into(),
        ],
    )
}

/// CoreDNS, from its program and the path of its Corefile.
pub fn coredns(program: &str, corefile: &str) -> Program {
    Program::new("coredns", program.to_string(), vec!["-conf".into(), corefile.to_string()])
}

/// The cluster's DNS zones; every other name does not exist, because nothing can leave the rig.
pub fn corefile(kubeconfig: &str) -> String {
    format!(
        "{domain} in-addr.arpa ip6.arpa {{
    errors
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache {{
        success 1000 5
        denial 1000 2
    }}
    loadbalance
}}
. {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
",
        domain = addresses::CLUSTER_DOMAIN
    )
}

/// A node's own programs; every path is as the node sees it.
pub struct Node<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its number, from 1.
    pub number: u8,
    /// Its root cgroup, which no other kubelet shares: kubelets destroy each other's pods in a shared one.
    pub cgroup_root: &'a str,
    /// Whether pods need a toleration to run here.
    pub control_plane_taint: bool,
}

/// Directory of a node's configuration as the node sees it.
pub const NODE_DIR: &str = "/var/lib/rig";
/// Where a node sees the multi-call program.
pub const NODE_BIN: &str = "/run/rig/bin";
/// Where a node sees the directory from which volumes are provisioned; all nodes share it.
pub const VOLUMES_DIR: &str = "/var/lib/rig/volumes";

impl Node<'_> {
    /// containerd.
    pub fn containerd(&self) -> Program {
        Program::new(
            "containerd",
            "/usr/bin/containerd".into(),
            vec![format!("--config={NODE_DIR}/containerd.toml")],
        )
    }

    /// The kubelet.
    pub fn kubelet(&self) -> Program {
        kube(
            NODE_BIN,
            "kubelet",
            vec![
                format!("--config={NODE_DIR}/kubelet.json"),
                format!("--kubeconfig={NODE_DIR}/kubelet.kubeconfig"),
                format!("--hostname-override={}", self.name),
                format!("--node-ip={}", addresses::node(self.number)),
            ],
        )
    }

    /// kube-proxy.
    pub fn kube_proxy(&self) -> Program {
        kube(NODE_BIN, "kube-proxy", vec![format!("--config={NODE_DIR}/kube-proxy.json")])
    }

    /// Configuration of containerd, for images that are already there.
    pub fn containerd_config(&self, pause_image: &str) -> String {
        format!(
            r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  # Root without CAP_SYS_RESOURCE may not lower the score.
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  # Pods' network namespaces belong to the node's /run, not to the machine's.
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{NODE_DIR}/cni"
"#
        )
    }

    /// The pod network of this node.
    pub fn cni_config(&self) -> Value {
        json!({
            "cniVersion": "0.4.0",
            "name": "rig",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": true,
                    "ipMasq": false,
                    "hairpinMode": true,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": addresses::pod_cidr(self.number)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                        // In /run, so that a restarted node does not keep the addresses of pods that died with it.
                        "dataDir": "/run/rig/ipam",
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        })
    }

    /// Configuration of the kubelet.
    pub fn kubelet_config(&self) -> Value {
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": format!("{NODE_DIR}/ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": format!("{NODE_DIR}/kubelet.crt"),
            "tlsPrivateKeyFile": format!("{NODE_DIR}/kubelet.key"),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup_root,
            "failCgroupV1": false,
            "failSwapOn": false,
            "oomScoreAdj": 0,
            "localStorageCapacityIsolation": false,
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
            "imageGCHighThresholdPercent": 100,
            // The machine's disk is not the node's to judge.
            "evictionHard": {
                "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                "imagefs.available": "0%", "imagefs.inodesFree": "0%",
            },
            "volumePluginDir": format!("{NODE_DIR}/volume-plugins"),
            "resolvConf": format!("{NODE_DIR}/resolv.conf"),
            "clusterDNS": [addresses::DNS_SERVICE.to_string()],
            "clusterDomain": addresses::CLUSTER_DOMAIN,
            "serializeImagePulls": false,
            "maxPods": 200,
        });
        if self.control_plane_taint {
            config["registerWithTaints"] = json!([{"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"}]);
        }
        config
    }

    /// Configuration of kube-proxy.
    pub fn kube_proxy_config(&self) -> Value {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": format!("{NODE_DIR}/kube-proxy.kubeconfig")},
            "clusterCIDR": addresses::POD_CIDR,
            "hostnameOverride": self.name,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            // The machine's limits are not the node's to change.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        })
    }
}

/// Label (and optional taint) of the first node.
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// What processes of a node resolve names by.
pub fn resolv_conf() -> String {
    format!("nameserver {}\n", addresses::DNS_SERVICE)
}
