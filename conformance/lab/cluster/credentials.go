//go:build linux

package cluster

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-project/penstock/conformance/lab/pki"
)

// users are the API server's users that the lab creates. The controller manager acts for all its
// controllers, so it is an administrator.
var users = map[string]pki.Subject{
	"admin":                   {Name: "admin", Groups: []string{"system:masters"}},
	"kube-controller-manager": {Name: "system:kube-controller-manager", Groups: []string{"system:masters"}},
	"kube-scheduler":          {Name: "system:kube-scheduler"},
	"kube-proxy":              {Name: "system:kube-proxy"},
	"kubelet":                 {Name: "system:node:" + nodeName, Groups: []string{"system:nodes"}},
}

func (c *Cluster) credentials() error {
	ca, err := pki.NewAuthority(c.Name, time.Now())
	if err != nil {
		return err
	}
	signer, err := pki.NewAuthority("service accounts of "+c.Name, time.Now()) // only the key is used
	if err != nil {
		return err
	}
	addresses := []netip.Addr{c.Plan.Node(), c.Plan.APIService(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	server, err := ca.Issue(pki.Subject{
		Name: "kube-apiserver", IPs: addresses,
		DNS: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local", "localhost"},
	})
	if err != nil {
		return err
	}
	node, err := ca.Issue(pki.Subject{Name: nodeName, DNS: []string{nodeName}, IPs: addresses[:1]})
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": ca.Certificate, "ca.key": ca.Key,
		"service-accounts.crt": signer.Certificate, "service-accounts.key": signer.Key,
		"apiserver.crt": server.Certificate, "apiserver.key": server.Key,
		"node.crt": node.Certificate, "node.key": node.Key,
		"audit.yaml": []byte(auditPolicy),
	}
	for file, subject := range users {
		pair, err := ca.Issue(subject)
		if err != nil {
			return err
		}
		if files[file+".kubeconfig"], err = c.kubeconfig(subject.Name, ca.Certificate, pair); err != nil {
			return err
		}
		files[file+".crt"], files[file+".key"] = pair.Certificate, pair.Key
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(c.Private, name), content, 0o600); err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
	}
	if err := os.WriteFile(c.Kubeconfig(), files["admin.kubeconfig"], 0o600); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

func (c *Cluster) kubeconfig(user string, ca []byte, pair pki.Pair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.server(), CertificateAuthorityData: ca}
	config.AuthInfos[c.Name+"-"+user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key,
	}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name + "-" + user}
	config.CurrentContext = c.Name
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return raw, nil
}
