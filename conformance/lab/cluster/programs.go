//go:build linux

package cluster

import (
	"path/filepath"
)

// etcdAddress is on the node's loopback interface, which no other node reaches.
const etcdAddress = "127.0.0.1:2379"

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

func (c *Cluster) private(file string) string { return filepath.Join(c.Private, file) }

func (c *Cluster) kubernetes(name string, args ...string) program {
	return program{name: name, path: filepath.Join(c.Tools, "kubernetes"), args: args}
}

func (c *Cluster) etcd() program {
	return program{name: "etcd", path: filepath.Join(c.Tools, "etcd"), args: []string{
		"--data-dir=" + c.private("etcd"),
		"--listen-client-urls=http://" + etcdAddress,
		"--advertise-client-urls=http://" + etcdAddress,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--unsafe-no-fsync=true", // no data outlives the lab
		"--log-level=warn",
	}}
}

func (c *Cluster) apiserver() program {
	p := c.kubernetes("kube-apiserver",
		"--etcd-servers=http://"+etcdAddress,
		"--bind-address="+c.Plan.Node().String(), "--secure-port=6443", "--advertise-address="+c.Plan.Node().String(),
		"--service-cluster-ip-range="+c.Plan.Services().String(),
		"--tls-cert-file="+c.private("apiserver.crt"), "--tls-private-key-file="+c.private("apiserver.key"),
		"--client-ca-file="+c.private("ca.crt"),
		"--kubelet-client-certificate="+c.private("admin.crt"), "--kubelet-client-key="+c.private("admin.key"),
		"--kubelet-certificate-authority="+c.private("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file="+c.private("service-accounts.key"),
		"--service-account-key-file="+c.private("service-accounts.crt"),
		"--allow-privileged=true",
		"--profiling=false",
	)
	if c.Audit {
		p.args = append(p.args, "--audit-policy-file="+c.private("audit.yaml"),
			"--audit-log-path="+filepath.Join(c.Dir, "audit.log"))
	}
	return p
}

func (c *Cluster) controllers() program {
	return c.kubernetes("kube-controller-manager",
		"--kubeconfig="+c.private("kube-controller-manager.kubeconfig"),
		"--bind-address=127.0.0.1", "--cert-dir="+c.private("kube-controller-manager"),
		// With leader election, the controller manager would end when it loses the API server.
		"--leader-elect=false",
		"--root-ca-file="+c.private("ca.crt"),
		"--service-account-private-key-file="+c.private("service-accounts.key"),
		"--cluster-signing-cert-file="+c.private("ca.crt"), "--cluster-signing-key-file="+c.private("ca.key"),
		// By default, a node counts as dead after 50 s without the API server.
		"--node-monitor-grace-period=10m",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--profiling=false",
	)
}

func (c *Cluster) scheduler() program {
	return c.kubernetes("kube-scheduler",
		"--kubeconfig="+c.private("kube-scheduler.kubeconfig"),
		"--bind-address=127.0.0.1", "--cert-dir="+c.private("kube-scheduler"),
		"--leader-elect=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--profiling=false",
	)
}

func (c *Cluster) proxy() program {
	return c.kubernetes("kube-proxy",
		"--kubeconfig="+c.private("kube-proxy.kubeconfig"),
		"--hostname-override="+nodeName,
		"--proxy-mode=nftables",
		"--cluster-cidr="+c.Plan.Pods().String(),
		"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249",
		"--bind-address="+c.Plan.Node().String(),
		// Zero keeps the machine's own limits.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	)
}
