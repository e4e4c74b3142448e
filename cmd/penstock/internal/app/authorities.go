package app

import (
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/fleet/apply"
)

const (
	// authoritySecret holds the CA of this cluster's processes. membersSecret holds the CA of the
	// certificates that other clusters of the cluster set verify.
	authoritySecret = "penstock-ca"
	membersSecret   = "penstock-members-ca"
)

// AuthoritySecrets are the names of the Secrets that hold authorities.
var AuthoritySecrets = []string{authoritySecret, membersSecret}

// Authorities returns the stored authorities of a namespace, by Secret.
func Authorities(config *rest.Config, namespace string) (map[string]authority.Secrets, error) {
	cluster, err := apply.New(apply.Config{REST: config, Namespaces: []string{namespace}, Changed: func(apply.Ref) {}})
	if err != nil {
		return nil, err
	}
	all := map[string]authority.Secrets{}
	for _, name := range AuthoritySecrets {
		all[name] = apply.Secret{Cluster: cluster, Namespace: namespace, Name: name}
	}
	return all, nil
}
