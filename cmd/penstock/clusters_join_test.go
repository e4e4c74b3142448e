package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// caBundle is a new CA's certificate, valid until some time from now.
func caBundle(t *testing.T, until time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "penstock test"}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(until), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// memberYAML is a member as `penstock clusters show` prints it.
func memberYAML(t *testing.T, name, address, bundle string) string {
	t.Helper()
	raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{{Name: name, Peer: &v1alpha1.ClusterSetPeer{Address: address, Bundle: bundle}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// clusterFolder is a folder with a ClusterSet, and a state folder of a cluster that has the given certificate.
func clusterFolder(t *testing.T, set, bundle string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), state: t.TempDir()}
	s.write("set.yaml", set)
	path := clusterset.MemberFile(s.state)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(memberYAML(t, "here", "127.0.0.1:1", bundle)), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// joinText runs `penstock clusters join` with a text.
func (s *site) joinText(text string, args ...string) (string, error) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "east.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return penstock(s.t, append([]string{"clusters", "join", path, "-f", s.dir, "--state", s.state}, args...)...)
}

func TestClusterSet_JoinAddsAndRenewsMembers(t *testing.T) {
	own, first, next := caBundle(t, time.Hour), caBundle(t, time.Hour), caBundle(t, time.Hour)
	s := clusterFolder(t, "# Ours.\n"+clusterSetYAML("here"), own)
	out, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", first))
	if err != nil || !strings.Contains(out, "east is a member now of ClusterSet gpus") || !strings.Contains(out, memberYAML(t, "here", "127.0.0.1:1", own)) {
		t.Fatalf("join: %s %v", out, err)
	}
	read := func() (text string, set v1alpha1.ClusterSet) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
		if err == nil {
			err = yaml.UnmarshalStrict(raw, &set)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), set
	}
	text, set := read()
	if !strings.HasPrefix(text, "# Ours.\n") || set.Spec.Cluster != "here" || len(set.Spec.Members) != 1 || set.Spec.Members[0].Peer.Bundle != first {
		t.Fatalf("the ClusterSet:\n%s", text)
	}
	s.write("set.yaml", strings.Replace(text, "namespaces: []", "namespaces: [chat] # only chat", 1))
	if out, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", first+next)); err != nil || !strings.Contains(out, "east has a new address or new certificates") {
		t.Fatalf("renewed: %s %v", out, err)
	}
	if text, set := read(); len(set.Spec.Members) != 1 || set.Spec.Members[0].Peer.Bundle != first+next || !strings.Contains(text, "# only chat") || set.Spec.Members[0].Allow.Namespaces[0] != "chat" {
		t.Errorf("after the renewal:\n%s", text)
	}
	before, _ := read()
	other := caBundle(t, time.Hour)
	if _, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", other)); err == nil || !strings.Contains(err.Error(), "add --replace if the cluster was made anew") {
		t.Errorf("a name that is taken: %v", err)
	}
	if after, _ := read(); after != before {
		t.Errorf("the file has changed:\n%s", after)
	}
	if _, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", other), "--replace"); err != nil {
		t.Error(err)
	}
	if _, set := read(); set.Spec.Members[0].Peer.Bundle != other {
		t.Error("the bundle is not replaced")
	}
	if _, err := s.joinText(memberYAML(t, "west", "192.0.2.1:9443", next)); err == nil || !strings.Contains(err.Error(), "ClusterSet gpus: member west: peer.address: 192.0.2.1:9443 is that of member east too") {
		t.Errorf("one address for two: %v", err)
	}
	if _, err := s.joinText(memberYAML(t, "west", "192.0.2.2:9443", other)); err == nil || !strings.Contains(err.Error(), "its certificate is that of member east too") {
		t.Errorf("one certificate for two: %v", err)
	}
}

// A member exports what the join names: the namespaces that the other cluster claims, or what flags
// have instead.
func TestClusterSet_JoinAllowsWhatItPrints(t *testing.T) {
	bundle := caBundle(t, time.Hour)
	claims := func(namespaces ...string) string {
		raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{{
			Name: "east", Peer: &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443", Bundle: bundle}, Allow: v1alpha1.ClusterSetAllow{Namespaces: namespaces},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, c := range []struct {
		what, set, text, prints string
		args                    []string
		want                    v1alpha1.ClusterSetAllow
	}{
		{"what it exports", "", claims("prod", "team"), "east may export here: namespaces prod, team", nil, v1alpha1.ClusterSetAllow{Namespaces: []string{"prod", "team"}}},
		{"nothing", "", claims(), "east may export nothing here: allow it with --allow-namespaces or --allow-pools", nil, v1alpha1.ClusterSetAllow{}},
		{"flags", "", claims("prod"), "east may export here: namespaces team; pools prod/chat", []string{"--allow-namespaces", "team", "--allow-pools", "prod/chat"},
			v1alpha1.ClusterSetAllow{Namespaces: []string{"team"}, Pools: []string{"prod/chat"}}},
		{"a pool alone", "", claims("prod"), "east may export here: pools prod/chat", []string{"--allow-pools", "prod/chat"}, v1alpha1.ClusterSetAllow{Pools: []string{"prod/chat"}}},
		{"it is a member already", "allow: {namespaces: [chat], exports: 7}", claims("prod"), "east may export here: namespaces chat", nil,
			v1alpha1.ClusterSetAllow{Namespaces: []string{"chat"}, Exports: new(int32(7))}},
		{"it is one, and a flag is given", "allow: {namespaces: [chat], exports: 7}", claims("prod"), "east may export here: pools prod/chat", []string{"--allow-pools", "prod/chat"},
			v1alpha1.ClusterSetAllow{Pools: []string{"prod/chat"}, Exports: new(int32(7))}},
	} {
		set := clusterSetYAML("here")
		if c.set != "" {
			set += "  members:\n  - name: east\n    " + c.set + "\n    peer: {address: \"192.0.2.1:1\", bundle: " + strconv.Quote(bundle) + "}\n"
		}
		s := clusterFolder(t, set, caBundle(t, time.Hour))
		out, err := s.joinText(c.text, c.args...)
		if err != nil || !strings.Contains(out, c.prints) || !strings.Contains(out, "east claims: its address is 192.0.2.1:9443, the SHA-256 of its CA certificates ") {
			t.Errorf("%s: %s %v", c.what, out, err)
		}
		raw, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var is v1alpha1.ClusterSet
		if err := yaml.UnmarshalStrict(raw, &is); err != nil {
			t.Fatal(err)
		}
		if c.want.Namespaces == nil && c.want.Pools == nil {
			c.want.Namespaces = []string{} // which is written, too
		}
		if diff := cmp.Diff(c.want, is.Spec.Members[0].Allow); diff != "" {
			t.Errorf("%s: %s\n%s", c.what, diff, raw)
		}
	}
	s := clusterFolder(t, clusterSetYAML("here"), caBundle(t, time.Hour))
	for _, c := range []struct{ text, flag, value, want string }{
		{claims("prod"), "--allow-pools", "chat", `--allow-pools: "chat" is no pool: write NAMESPACE/NAME`},
		{claims("prod"), "--allow-namespaces", "Prod", `--allow-namespaces: "Prod" is no namespace`},
		{claims("a b"), "--replace", "", `allow.namespaces: "a b" is no namespace`},
		{strings.Replace(claims("prod"), "- allow:", "- allow:\n    cleartext: true", 1), "--replace", "", "allow: it has more than the namespaces"},
	} {
		flag := c.flag
		if c.value != "" {
			flag += "=" + c.value
		}
		if _, err := s.joinText(c.text, flag); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestClusterSet_JoinNamesWhatIsWrong(t *testing.T) {
	own, good := caBundle(t, time.Hour), caBundle(t, time.Hour)
	s := clusterFolder(t, clusterSetYAML("here"), own)
	before, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const at = "192.0.2.1:9443"
	for what, c := range map[string]struct{ text, want string }{
		"no YAML":                 {"[", "east.yaml is no list of members"},
		"a text":                  {"nonsense", "east.yaml is no list of members; write what `penstock clusters show` prints at the other cluster"},
		"nothing":                 {"", "east.yaml has no member: write what `penstock clusters show` prints"},
		"an unknown field":        {"- name: east\n  pear: {}\n", `unknown field "pear"`},
		"a name with a capital":   {memberYAML(t, "East", at, good), `member "East": [0].name: "East" is no DNS label; correct spec.cluster`},
		"the name of this":        {memberYAML(t, "here", at, good), "ClusterSet gpus: spec.cluster: here is the name of this cluster too"},
		"two of one name":         {memberYAML(t, "east", at, good) + memberYAML(t, "east", "192.0.2.2:1", good), `[1].name: another member has it too`},
		"no peer":                 {"- name: east\n", "[0].peer: it is missing"},
		"a hub that relayed":      {strings.Replace(memberYAML(t, "hub", at, good), "  peer:\n", "  peer:\n    hub: true\n", 1), `[0].peer.hub: no hub relays between Penstocks any more; join the clusters that it relayed to each other`},
		"no port":                 {memberYAML(t, "east", "192.0.2.1", good), `[0].peer.address: "192.0.2.1" is no address that can be reached; start penstock there with --members-address HOST:PORT`},
		"every address":           {memberYAML(t, "east", "0.0.0.0:9443", good), "0.0.0.0:9443 is every address of that machine, and can't be reached from another one; start penstock there with --members-address HOST:PORT"},
		"an expired certificate":  {memberYAML(t, "east", at, caBundle(t, -time.Hour)), "[0].peer.bundle: its certificates expired on"},
		"this one's certificate":  {memberYAML(t, "east", at, own), "its certificate is that of this cluster"},
		"a damaged certificate":   {memberYAML(t, "east", at, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "[0].peer.bundle: a certificate is damaged"},
		"no certificate":          {memberYAML(t, "east", at, "x"), "[0].peer.bundle: it has no PEM certificate"},
		"a private key":           {memberYAML(t, "east", at, good+"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "[0].peer.bundle: it has a PRIVATE KEY"},
		"more than a list may be": {strings.Repeat("#", 1<<20+1), "has more than 1048576 bytes"},
	} {
		out, err := s.joinText(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q; output %s", what, err, c.want, out)
		}
	}
	if after, err := os.ReadFile(filepath.Join(s.dir, "set.yaml")); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %v\n%s", err, after)
	}
	s.write("set.yaml", "")
	if _, err := s.joinText(memberYAML(t, "east", at, good)); err == nil || !strings.Contains(err.Error(), "there is no ClusterSet in "+s.dir+": write one, with a name for this cluster") {
		t.Errorf("without a ClusterSet: %v", err)
	}
}

func TestClusters_JoinReportsADamagedFileOfItsOwn(t *testing.T) {
	if own, err := ownAsMember(""); own != nil || err != nil {
		t.Errorf("before there is a certificate: %+v, %v", own, err)
	}
	if own, err := ownAsMember("- {name: east}\n"); err != nil || own.Name != "east" {
		t.Errorf("%+v, %v", own, err)
	}
	for _, text := range []string{"- {name: ea", "- {name: east}\n- {name: west}\n", "[]"} {
		if own, err := ownAsMember(text); err == nil || !strings.Contains(err.Error(), "restart penstock") {
			t.Errorf("%q is %+v, %v", text, own, err)
		}
	}
}
