package set

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/certificates"
)

// maxJoin bounds the text passed to ReadMembers, in bytes: 256 members with bundles of 4 KB each.
const maxJoin = 1 << 20

// maxMembers bounds the members of a ClusterSet, as in its schema.
const maxMembers = 256

// ReadMembers parses members from text, the output of `penstock clusters show`. from is the name of
// the text in errors, such as a file name.
func ReadMembers(from string, text []byte, now time.Time) ([]v1alpha1.ClusterSetMember, error) {
	const fix = "write what `penstock clusters show` prints at the other cluster"
	if len(text) > maxJoin {
		return nil, fmt.Errorf("%s has more than %d bytes: %s", from, maxJoin, fix)
	}
	var list []v1alpha1.ClusterSetMember
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		if no, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && no.Field == "" { // its text names a Go type
			return nil, fmt.Errorf("%s is no list of members; %s", from, fix)
		}
		return nil, fmt.Errorf("%s is no list of members: %.300s; %s", from, err.Error(), fix)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no member: %s", from, fix)
	}
	var problems []error
	for i := range list {
		for _, p := range memberProblems(&list[i], now) {
			problems = append(problems, fmt.Errorf("%s: member %.100q: [%d].%w", from, list[i].Name, i, p))
		}
		if slices.ContainsFunc(list[:i], func(m v1alpha1.ClusterSetMember) bool { return m.Name == list[i].Name }) {
			problems = append(problems, fmt.Errorf("%s: member %q: [%d].name: another member has it too; give each "+
				"cluster a name of its own (spec.cluster of its ClusterSet)", from, list[i].Name, i))
		}
	}
	return list, errors.Join(problems...)
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" {
		return fmt.Errorf("%.100q is no address that can be reached", address)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%s is every address of that machine, and can't be reached from another one", address)
	}
	return nil
}

func memberProblems(m *v1alpha1.ClusterSetMember, now time.Time) (problems []error) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(validation.IsDNS1123Label(m.Name)) > 0 {
		add("name: %.100q is no DNS label; correct spec.cluster of the ClusterSet there: lower-case letters, digits "+
			"and '-', 63 at most", m.Name)
	}
	for _, ns := range m.Allow.Namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			add("allow.namespaces: %.100q is no namespace; run `penstock clusters show` there again", ns)
			break
		}
	}
	if claimed := m.Allow; !reflect.DeepEqual(claimed, v1alpha1.ClusterSetAllow{Namespaces: claimed.Namespaces}) {
		add("allow: it has more than the namespaces of the exports there; the ClusterSet here grants the rest: " +
			"remove the other fields, and write them into that ClusterSet")
	}
	if m.Peer == nil {
		add("peer: it is missing; write what `penstock clusters show` prints there")
		return problems
	}
	if m.Peer.Hub {
		add("peer.hub: no hub relays between Penstocks any more; join the clusters that it relayed to each other, " +
			"with what `penstock clusters show` prints at each")
	}
	if err := checkAddress(m.Peer.Address); err != nil {
		add("peer.address: %w; start penstock there with --members-address HOST:PORT", err)
	}
	if err := CheckBundle(m.Peer.Bundle, now); err != nil {
		add("peer.bundle: %w; run `penstock clusters show` there again", err)
	}
	return problems
}

// CheckBundle returns an error if no certificate of a bundle can vouch for a member now.
func CheckBundle(bundle string, now time.Time) error {
	certs, err := parse(bundle)
	if err != nil {
		return err
	}
	var late, early time.Time
	for _, c := range certs {
		switch err := certificates.Vouches(c); {
		case err != nil:
			return err
		case now.After(c.NotAfter):
			late = c.NotAfter
		case now.Before(c.NotBefore):
			early = c.NotBefore
		default:
			return nil
		}
	}
	if early.IsZero() {
		return fmt.Errorf("its certificates expired on %s", late.UTC().Format(time.DateOnly))
	}
	return fmt.Errorf("its certificates are not valid before %s: a clock is wrong", early.UTC().Format(time.RFC3339))
}

func parse(bundle string) (out []*x509.Certificate, err error) {
	for rest := []byte(bundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a %.40s, which must not leave that cluster", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate is damaged: %w", err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New("it has no PEM certificate")
	}
	return out, nil
}

func shared(a, b string) bool {
	x, _ := parse(a)
	y, _ := parse(b)
	return slices.ContainsFunc(x, func(c *x509.Certificate) bool {
		return slices.ContainsFunc(y, func(o *x509.Certificate) bool { return bytes.Equal(c.Raw, o.Raw) })
	})
}

// Claims summarizes the entry of a new member in one line, for a user who decides whether to trust
// it.
func Claims(m *v1alpha1.ClusterSetMember) string {
	namespaces := "it exports nothing now"
	if len(m.Allow.Namespaces) > 0 {
		namespaces = "it exports pools of namespaces " + strings.Join(m.Allow.Namespaces, ", ")
	}
	prints := ""
	if list, err := parse(m.Peer.Bundle); err == nil {
		for _, c := range list {
			prints += fmt.Sprintf(" %x", sha256.Sum256(c.Raw))
		}
	}
	return fmt.Sprintf("%s claims: its address is %s, the SHA-256 of its CA certificates%s, and %s",
		m.Name, m.Peer.Address, prints, namespaces)
}

// Join adds a member to a ClusterSet, or renews the member's address and bundle. own is this
// cluster's own entry, or nil without a certificate. published is MemberStatus.Published. Unless
// replace is true, each CA in a renewed bundle must be trusted already, or signed by a trusted CA.
func Join(set *v1alpha1.ClusterSet, m v1alpha1.ClusterSetMember, own *v1alpha1.ClusterSetMember, published string,
	replace bool) (what string, err error) {
	owner := "ClusterSet " + set.Name
	if m.Name == set.Spec.Cluster || own != nil && m.Name == own.Name {
		return "", fmt.Errorf("%s: spec.cluster: %s is the name of this cluster too; give each cluster a name of "+
			"its own", owner, m.Name)
	}
	if own != nil && own.Peer != nil && shared(own.Peer.Bundle, m.Peer.Bundle) {
		return "", fmt.Errorf("%s: member %s: peer.bundle: it has the certificate of this cluster; run `penstock "+
			"clusters show` at %s, not here, and copy no state folder", owner, m.Name, m.Name)
	}
	at := -1
	for i, other := range set.Spec.Members {
		switch {
		case other.Name == m.Name:
			at = i
		case other.Peer == nil:
		case other.Peer.Address == m.Peer.Address:
			return "", fmt.Errorf("%s: member %s: peer.address: %s is also the address of member %s; correct "+
				"--members-address at one of them, or remove the member that is gone",
				owner, m.Name, m.Peer.Address, other.Name)
		case shared(other.Peer.Bundle, m.Peer.Bundle):
			return "", fmt.Errorf("%s: member %s: peer.bundle: it has a certificate of member %s; run `penstock "+
				"clusters show` at %s again, or remove %s if the cluster was renamed",
				owner, m.Name, other.Name, m.Name, other.Name)
		}
	}
	if at < 0 {
		if len(set.Spec.Members) >= maxMembers {
			return "", fmt.Errorf("%s: spec.members: it has %d, which is the maximum; remove one", owner, maxMembers)
		}
		set.Spec.Members = append(set.Spec.Members, m)
		return "added", nil
	}
	old := &set.Spec.Members[at]
	switch {
	case old.Peer != nil && old.Peer.Address == m.Peer.Address &&
		strings.TrimSpace(old.Peer.Bundle) == strings.TrimSpace(m.Peer.Bundle):
		return "", nil
	case old.Peer == nil && !replace:
		return "", fmt.Errorf("%s: member %s: it is reached by kubeconfig or clusterProfile, for penstock hub, and "+
			"has no peer: give the other cluster another spec.cluster, remove the member here if the hub is gone, or "+
			"add --replace to have it exchange exports with this Penstock instead", owner, m.Name)
	case !replace:
		if unknown := strangers(old.Peer.Bundle+"\n"+published, m.Peer, time.Now()); len(unknown) > 0 {
			return "", fmt.Errorf("%s: member %s: peer.bundle: the member is not known to have the CA %s. Another "+
				"cluster that has its name would get what is meant for it. Compare the fingerprints with those at %s "+
				"(openssl x509 -noout -fingerprint -sha256). If they are the same, as after penstock credentials "+
				"rotate or in a cluster that was made anew, add --replace; else give the other cluster another "+
				"spec.cluster",
				owner, m.Name, strings.Join(unknown[:min(len(unknown), listed)], ", "), m.Name)
		}
	}
	old.Peer, old.Kubeconfig, old.ClusterProfile = m.Peer, nil, nil // only one may be set
	return "renewed", nil
}

// strangers describes the certificates in next that are neither in bundle nor signed by a valid
// certificate in bundle. It checks each by itself: CA certificates are public, so a known one does
// not prove that the others come from the same member.
func strangers(bundle string, next *v1alpha1.ClusterSetPeer, now time.Time) (unknown []string) {
	known, _ := parse(bundle) // no certificate of an unreadable bundle is known
	certs, err := parse(next.Bundle)
	if err != nil {
		return []string{err.Error()}
	}
	for _, c := range certs {
		if !slices.ContainsFunc(known, func(k *x509.Certificate) bool {
			valid := !now.After(k.NotAfter) && !now.Before(k.NotBefore)
			return bytes.Equal(k.Raw, c.Raw) || valid && c.CheckSignatureFrom(k) == nil
		}) {
			unknown = append(unknown, fmt.Sprintf("%.200q with SHA-256 %x", c.Subject, sha256.Sum256(c.Raw)))
		}
	}
	return unknown
}
