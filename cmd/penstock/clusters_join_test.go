package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/set"
)

type testCA struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle string
}

func newCA(t *testing.T, until time.Duration) *testCA {
	t.Helper()
	return (&testCA{key: newKey(t)}).again(t, until)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// again returns a new self-signed certificate of the same key.
func (c *testCA) again(t *testing.T, until time.Duration) *testCA { return issue(t, nil, c.key, until) }

func (c *testCA) signs(t *testing.T) *testCA { return issue(t, c, newKey(t), time.Hour) }

// issue makes a CA certificate of key. The CA by signs it; nil makes it self-signed.
func issue(t *testing.T, by *testCA, key *ecdsa.PrivateKey, until time.Duration) *testCA {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "penstock test"},
		NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:  time.Now().Add(until), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

func caBundle(t *testing.T, until time.Duration) string {
	t.Helper()
	return newCA(t, until).bundle
}

func memberYAML(t *testing.T, name, address, bundle string) string {
	t.Helper()
	raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{
		{Name: name, Peer: &v1alpha1.ClusterSetPeer{Address: address, Bundle: bundle}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// clusterFolder makes a folder with a ClusterSet, and a state folder whose cluster has the CA
// bundle.
func clusterFolder(t *testing.T, clusterSet, bundle string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), state: t.TempDir()}
	s.write("set.yaml", clusterSet)
	path := set.MemberFile(s.state)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(memberYAML(t, "here", "127.0.0.1:1", bundle)), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

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
	if err != nil || !strings.Contains(out, "east is a member now of ClusterSet gpus") ||
		!strings.Contains(out, memberYAML(t, "here", "127.0.0.1:1", own)) {
		t.Fatalf("join: got %s %v, want that east is a member now, and the own member", out, err)
	}
	read := func() (text string, clusterSet v1alpha1.ClusterSet) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
		if err == nil {
			err = yaml.UnmarshalStrict(raw, &clusterSet)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), clusterSet
	}
	text, clusterSet := read()
	if !strings.HasPrefix(text, "# Ours.\n") || clusterSet.Spec.Cluster != "here" ||
		len(clusterSet.Spec.Members) != 1 ||
		clusterSet.Spec.Members[0].Peer.Bundle != first {
		t.Fatalf("the ClusterSet: got\n%s\nwant it with the comment, named here, and east with its bundle", text)
	}
	s.write("set.yaml", strings.Replace(text, "namespaces: []", "namespaces: [chat] # only chat", 1))
	out, err = s.joinText(memberYAML(t, "east", "192.0.2.1:9443", first+next), "--replace")
	if err != nil || !strings.Contains(out, "east has a new address or new certificates") {
		t.Fatalf(`renewed: %s %v, want a text with "east has a new address or new certificates"`, out, err)
	}
	if text, clusterSet := read(); len(clusterSet.Spec.Members) != 1 ||
		clusterSet.Spec.Members[0].Peer.Bundle != first+next ||
		!strings.Contains(text, "# only chat") || clusterSet.Spec.Members[0].Allow.Namespaces[0] != "chat" {
		t.Errorf("after the renewal: got\n%s\nwant both authorities, and what was edited", text)
	}
	before, _ := read()
	other := caBundle(t, time.Hour)
	if _, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", other)); err == nil ||
		!strings.Contains(err.Error(), "add --replace") {
		t.Errorf("a name that is taken: got %v, want add --replace", err)
	}
	if after, _ := read(); after != before {
		t.Errorf("the file has changed, want it as before:\n%s", after)
	}
	if _, err := s.joinText(memberYAML(t, "east", "192.0.2.1:9443", other), "--replace"); err != nil {
		t.Error(err)
	}
	if _, clusterSet := read(); clusterSet.Spec.Members[0].Peer.Bundle != other {
		t.Error("the bundle is not replaced")
	}
	if _, err := s.joinText(memberYAML(t, "west", "192.0.2.1:9443", next)); err == nil ||
		!strings.Contains(err.Error(),
			"ClusterSet gpus: member west: peer.address: 192.0.2.1:9443 is also the address of member east") {
		t.Errorf("one address for two: got %v, want that east has 192.0.2.1:9443, too", err)
	}
	if _, err := s.joinText(memberYAML(t, "west", "192.0.2.2:9443", other)); err == nil ||
		!strings.Contains(err.Error(), "it has a certificate of member east") {
		t.Errorf("one certificate for two: got %v, want that it is one of east", err)
	}
}

// CA certificates are public: a stranger can add a member's CA to its own bundle. This bundle must
// not get the member's name.
func TestClusterSet_JoinGivesNoNameToAnUnknownCA(t *testing.T) {
	old := newCA(t, time.Hour)
	renewed := old.again(t, 2*time.Hour)
	known, other, ended := old.bundle, newCA(t, time.Hour), newCA(t, -time.Hour)
	revived, signed := ended.again(t, time.Hour), other.signs(t)
	print := func(c *testCA) string { return fmt.Sprintf("SHA-256 %x", sha256.Sum256(c.cert.Raw)) }
	for _, c := range []struct {
		what, has, text string
		denied          *testCA
	}{
		{"one of two is known", known, known + other.bundle, other},
		{"none is known", known, other.bundle, other},
		{"what was known has expired", ended.bundle, other.bundle, other},
		{"the known one has expired, and is there too", ended.bundle, ended.bundle + other.bundle, other},
		{"the key of an expired one", ended.bundle, revived.bundle, revived},
		{"signed by one that is not known", known, known + signed.bundle, signed},
		{"its own", known, known, nil},
		{"its own twice, with a comment", known, "# east\n" + known + known, nil},
		{"fewer", known + other.bundle, known, nil},
		{"the known key renews its certificate", known, known + renewed.bundle, nil},
		{"the known key signs the next", known, known + old.signs(t).bundle, nil},
		{"the known key signs the next, alone", known, old.signs(t).bundle, nil},
	} {
		peer := "peer: {address: \"192.0.2.1:9443\", bundle: " + strconv.Quote(c.has) + "}"
		s := clusterFolder(t, clusterSetYAML("here")+"  members:\n  - name: east\n    "+peer+"\n",
			caBundle(t, time.Hour))
		text := memberYAML(t, "east", "192.0.2.9:9443", c.text)
		_, err := s.joinText(text)
		if c.denied == nil {
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: joined by that name, want an error", c.what)
			continue
		}
		for _, want := range []string{"member east: peer.bundle: ", "CN=penstock test", print(c.denied),
			"add --replace", "spec.cluster"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got the error %v, want %q", c.what, err, want)
			}
		}
		if strings.Contains(err.Error(), print(old)) {
			t.Errorf("%s: got the error %v, want no fingerprint of the known authority", c.what, err)
		}
		if out, err := s.joinText(text, "--replace"); err != nil || !strings.Contains(out, "new certificates") {
			t.Errorf(`%s, with --replace: %s %v, want a text with "new certificates"`, c.what, out, err)
		}
	}
}

// join accepts a CA that the member has published over its connection, without --replace.
func TestClusterSet_JoinKnowsWhatAMemberHasPublished(t *testing.T) {
	old, next, other := newCA(t, time.Hour), newCA(t, time.Hour), newCA(t, time.Hour)
	peer := &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443", Bundle: old.bundle}
	clusterSet := &v1alpha1.ClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	clusterSet.Spec.Cluster, clusterSet.Spec.Members = "here", []v1alpha1.ClusterSetMember{{Name: "east", Peer: peer}}
	under := set.Fingerprint(old.bundle)
	members := []set.MemberStatus{
		{Name: "west", Published: other.bundle, PublishedUnder: under},
		{Name: "east", Published: next.bundle, PublishedUnder: under},
	}
	mux := http.NewServeMux()
	serve := func(page string, content any) {
		mux.HandleFunc(page, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(content) })
	}
	serve("/clusters", set.Status{Cluster: "here", Members: members})
	serve("/debug/store/ClusterSet", map[string]any{"objects": []any{clusterSet}})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		bundle string
		joins  bool
	}{
		"what it has published":              {next.bundle, true},
		"a CA that the published one signed": {next.signs(t).bundle, true},
		"what another has published":         {other.bundle, false},
	} {
		path := filepath.Join(t.TempDir(), "east.yaml")
		if err := os.WriteFile(path, []byte(memberYAML(t, "east", "192.0.2.1:9443", c.bundle)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := penstock(t, "clusters", "join", path, "--http", strings.TrimPrefix(server.URL, "http://"))
		if (err == nil) != c.joins || c.joins && !strings.Contains(out, "east has a new address or new certificates") {
			t.Errorf("%s: got %s %v, want it renewed: %t", name, out, err, c.joins)
		}
	}
}

// An operator replaces a bundle after a leak. CAs published under the old bundle do not count, even
// before the process has read the new one.
func TestClusterSet_JoinTakesNothingPublishedUnderAReplacedBundle(t *testing.T) {
	leaked, replaced, later := newCA(t, time.Hour), newCA(t, time.Hour), newCA(t, time.Hour)
	clusterSet := &v1alpha1.ClusterSet{}
	peer := &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443", Bundle: replaced.bundle}
	clusterSet.Spec.Members = []v1alpha1.ClusterSetMember{{Name: "east", Peer: peer}}
	member := set.MemberStatus{Name: "east", Published: later.bundle}
	for under, want := range map[string]string{leaked.bundle: "", replaced.bundle: later.bundle} {
		member.PublishedUnder = set.Fingerprint(under)
		status := &set.Status{Members: []set.MemberStatus{member}}
		if got := published(status, clusterSet, "east"); got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	}
}

// A member with kubeconfig or clusterProfile has no certificate to compare. --replace turns it into
// a peer.
func TestClusterSet_JoinNamesAMemberOfAHub(t *testing.T) {
	for _, access := range []string{"kubeconfig: {file: east}", "clusterProfile: {name: east, namespace: fleet}"} {
		s := clusterFolder(t, clusterSetYAML("here")+"  members:\n  - name: east\n    "+access+"\n",
			caBundle(t, time.Hour))
		text := memberYAML(t, "east", "192.0.2.9:9443", caBundle(t, time.Hour))
		_, err := s.joinText(text)
		if err == nil || !strings.Contains(err.Error(),
			"member east: it is reached by kubeconfig or clusterProfile, for penstock hub") {
			t.Errorf("%s: got %v, want that it is reached by kubeconfig or clusterProfile", access, err)
		}
		if out, err := s.joinText(text, "--replace"); err != nil || !strings.Contains(out, "new certificates") {
			t.Errorf(`%s, with --replace: %s %v, want a text with "new certificates"`, access, out, err)
		}
		written, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
		if err != nil || strings.Contains(string(written), "file: east") ||
			strings.Contains(string(written), "clusterProfile") {
			t.Errorf("%s: got the member %s %v, want a peer alone", access, written, err)
		}
	}
}

// join allows the namespaces in the other cluster's entry, or in --allow-namespaces and
// --allow-pools.
func TestClusterSet_JoinAllowsWhatItPrints(t *testing.T) {
	bundle := caBundle(t, time.Hour)
	claims := func(namespaces ...string) string {
		raw, err := yaml.Marshal([]v1alpha1.ClusterSetMember{{
			Name: "east", Peer: &v1alpha1.ClusterSetPeer{Address: "192.0.2.1:9443", Bundle: bundle},
			Allow: v1alpha1.ClusterSetAllow{Namespaces: namespaces},
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
		{"what it exports", "", claims("prod", "team"), "east may export here: namespaces prod, team", nil,
			v1alpha1.ClusterSetAllow{Namespaces: []string{"prod", "team"}}},
		{"nothing", "", claims(), "east may export nothing here: allow it with --allow-namespaces or --allow-pools",
			nil, v1alpha1.ClusterSetAllow{}},
		{"flags", "", claims("prod"), "east may export here: namespaces team; pools prod/chat",
			[]string{"--allow-namespaces", "team", "--allow-pools", "prod/chat"},
			v1alpha1.ClusterSetAllow{Namespaces: []string{"team"}, Pools: []string{"prod/chat"}}},
		{"a pool alone", "", claims("prod"), "east may export here: pools prod/chat",
			[]string{"--allow-pools", "prod/chat"}, v1alpha1.ClusterSetAllow{Pools: []string{"prod/chat"}}},
		{"it is a member already", "allow: {namespaces: [chat], exports: 7}", claims("prod"),
			"east may export here: namespaces chat", nil,
			v1alpha1.ClusterSetAllow{Namespaces: []string{"chat"}, Exports: new(int32(7))}},
		{"it is one, and a flag is given", "allow: {namespaces: [chat], exports: 7}", claims("prod"),
			"east may export here: pools prod/chat", []string{"--allow-pools", "prod/chat"},
			v1alpha1.ClusterSetAllow{Pools: []string{"prod/chat"}, Exports: new(int32(7))}},
	} {
		clusterSet := clusterSetYAML("here")
		if c.set != "" {
			clusterSet += "  members:\n  - name: east\n    " + c.set +
				"\n    peer: {address: \"192.0.2.1:1\", bundle: " +
				strconv.Quote(bundle) + "}\n"
		}
		s := clusterFolder(t, clusterSet, caBundle(t, time.Hour))
		out, err := s.joinText(c.text, c.args...)
		if err != nil || !strings.Contains(out, c.prints) ||
			!strings.Contains(out, "east claims: its address is 192.0.2.1:9443, the SHA-256 of its CA certificates ") {
			t.Errorf("%s: got %s %v, want %s, and what east claims", c.what, out, err, c.prints)
		}
		raw, err := os.ReadFile(filepath.Join(s.dir, "set.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var printed v1alpha1.ClusterSet
		if err := yaml.UnmarshalStrict(raw, &printed); err != nil {
			t.Fatal(err)
		}
		if c.want.Namespaces == nil && c.want.Pools == nil {
			c.want.Namespaces = []string{}
		}
		if diff := cmp.Diff(c.want, printed.Spec.Members[0].Allow); diff != "" {
			t.Errorf("%s: want this allow (-want +got):\n%s\n%s", c.what, diff, raw)
		}
	}
	s := clusterFolder(t, clusterSetYAML("here"), caBundle(t, time.Hour))
	for _, c := range []struct{ text, flag, value, want string }{
		{claims("prod"), "--allow-pools", "chat", `--allow-pools: "chat" is no pool: write NAMESPACE/NAME`},
		{claims("prod"), "--allow-namespaces", "Prod", `--allow-namespaces: "Prod" is no namespace`},
		{claims("a b"), "--replace", "", `allow.namespaces: "a b" is no namespace`},
		{strings.Replace(claims("prod"), "- allow:", "- allow:\n    cleartext: true", 1), "--replace", "",
			"allow: it has more than the namespaces"},
	} {
		flag := c.flag
		if c.value != "" {
			flag += "=" + c.value
		}
		if _, err := s.joinText(c.text, flag); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want the error %s, got %v", c.want, err)
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
		"no YAML": {"[", "east.yaml is no list of members"},
		"a text": {
			"nonsense",
			"east.yaml is no list of members; write what `penstock clusters show` prints at the other cluster",
		},
		"nothing":          {"", "east.yaml has no member: write what `penstock clusters show` prints"},
		"an unknown field": {"- name: east\n  pear: {}\n", `unknown field "pear"`},
		"a name with a capital": {memberYAML(t, "East", at, good),
			`member "East": [0].name: "East" is no DNS label; correct spec.cluster`},
		"the name of this": {memberYAML(t, "here", at, good),
			"ClusterSet gpus: spec.cluster: here is the name of this cluster too"},
		"two of one name": {memberYAML(t, "east", at, good) + memberYAML(t, "east", "192.0.2.2:1", good),
			`[1].name: another member has it too`},
		"no peer": {"- name: east\n", "[0].peer: it is missing"},
		"a hub that relayed": {
			strings.Replace(memberYAML(t, "hub", at, good), "  peer:\n", "  peer:\n    hub: true\n", 1),
			`[0].peer.hub: no hub relays between Penstocks any more; join the clusters that it relayed to each other`,
		},
		"no port": {memberYAML(t, "east", "192.0.2.1", good),
			`[0].peer.address: "192.0.2.1" is no address that can be reached; start penstock there with --members-address HOST:PORT`},
		"every address": {memberYAML(t, "east", "0.0.0.0:9443", good),
			"0.0.0.0:9443 is every address of that machine, and can't be reached from another one; start penstock " +
				"there with --members-address HOST:PORT"},
		"an expired certificate": {memberYAML(t, "east", at, caBundle(t, -time.Hour)),
			"[0].peer.bundle: its certificates expired on"},
		"this one's certificate": {memberYAML(t, "east", at, own), "it has the certificate of this cluster"},
		"a damaged certificate": {
			memberYAML(t, "east", at, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
			"[0].peer.bundle: a certificate is damaged",
		},
		"no certificate": {memberYAML(t, "east", at, "x"), "[0].peer.bundle: it has no PEM certificate"},
		"a private key": {
			memberYAML(t, "east", at, good+"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
			"[0].peer.bundle: it has a PRIVATE KEY",
		},
		"more than a list may be": {strings.Repeat("#", 1<<20+1), "has more than 1048576 bytes"},
	} {
		out, err := s.joinText(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q; output %s", what, err, c.want, out)
		}
	}
	if after, err := os.ReadFile(filepath.Join(s.dir, "set.yaml")); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, want it as before: %v\n%s", err, after)
	}
	s.write("set.yaml", "")
	if _, err := s.joinText(memberYAML(t, "east", at, good)); err == nil ||
		!strings.Contains(err.Error(), "there is no ClusterSet in "+s.dir+": write one, with a name for this cluster") {
		t.Errorf("without a ClusterSet: got %v, want an error to write one", err)
	}
}

func TestClusters_JoinReportsADamagedFileOfItsOwn(t *testing.T) {
	if own, err := ownAsMember(""); own != nil || err != nil {
		t.Errorf("before there is a certificate: got %+v, %v, want nothing", own, err)
	}
	if own, err := ownAsMember("- {name: east}\n"); err != nil || own.Name != "east" {
		t.Errorf(`%+v, %v, want Name "east"`, own, err)
	}
	for _, text := range []string{"- {name: ea", "- {name: east}\n- {name: west}\n", "[]"} {
		if own, err := ownAsMember(text); err == nil || !strings.Contains(err.Error(), "restart penstock") {
			t.Errorf("%q is %+v, %v, want an error to restart penstock", text, own, err)
		}
	}
}

// join prints a ClusterSet for kubectl apply, so names that look like credentials are not redacted.
func TestClustersJoin_ReadsNamesAsTheyAre(t *testing.T) {
	const key = "sk-0123456789abcdef01234567"
	clusterSet := &v1alpha1.ClusterSet{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: v1alpha1.ClusterSetSpec{
		Cluster: "sk-hynix-gpu-cluster-01", Region: "hf-region-0123456789ab", Zone: key,
		Members: []v1alpha1.ClusterSetMember{{
			Name:           "hf-llama-3-70b-instruct",
			Peer:           &v1alpha1.ClusterSetPeer{Address: "sk-seoul-llama-3-8b.example.com:443"},
			ClusterProfile: &v1alpha1.ClusterSetProfile{Namespace: "gho-0123456789abcdef", Name: key},
			Allow: v1alpha1.ClusterSetAllow{
				Namespaces: []string{"hf-llama-3-70b-instruct", key},
				Pools:      []string{key + "/sk-seoul-llama-3-8b-instruct"},
			},
		}},
	}}
	s := store.New()
	if _, err := s.Apply(store.ClusterSets.PutObject(clusterSet)); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	debug.RegisterStore(mux, s)
	server := httptest.NewServer(mux)
	defer server.Close()
	got, err := runningAt(server.URL).clusterSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clusterSet.Spec, got.Spec); diff != "" || got.Name != clusterSet.Name {
		t.Errorf("ClusterSet %s: want the same (-want +got):\n%s", got.Name, diff)
	}
}
