package expected

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
)

const infra = "gateway-conformance-infra"

func suite(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api/conformance")
	cmd.Dir = filepath.Join("..", "gateway")
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err == nil && dir == "" {
		download := exec.Command("go", "mod", "download", "sigs.k8s.io/gateway-api/conformance")
		download.Dir = cmd.Dir
		if text, err := download.CombinedOutput(); err != nil {
			t.Fatalf("the suite cannot be downloaded: %v\n%s", err, text)
		}
		cmd := exec.Command("go", cmd.Args[1:]...)
		cmd.Dir = download.Dir
		out, err = cmd.Output()
		dir = strings.TrimSpace(string(out))
	}
	if err != nil || dir == "" {
		t.Fatalf("the suite's folder: got %q, %v, want one", dir, err)
	}
	return dir
}

type world struct {
	translator *translator.Translator
	reports    map[report.Ref]report.Report
}

func read(t *testing.T, paths ...string) *world {
	t.Helper()
	dir := t.TempDir()
	for i, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "{GATEWAY_CLASS_NAME}", "penstock")
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets.yaml"), []byte(secrets(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := store.New()
	if _, err := s.Apply(store.AddressPolicies.Put(addresses.Unrestricted())); err != nil {
		t.Fatal(err)
	}
	r, err := file.New(file.Config{Paths: []string{dir}, Store: s, Log: slog.New(slog.DiscardHandler),
		Report: func(list []report.Report) {
			for _, rep := range list {
				for _, f := range rep.Findings {
					if f.Severity == report.Error {
						t.Errorf("the suite's manifest: got the error %s, want none", f)
					}
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	w := &world{
		translator: translator.New(translator.Config{
			Controller: "penstock.dev/gateway-controller", AnyClass: true,
			Pickers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
		}),
		reports: map[report.Ref]report.Report{},
	}
	out := w.translator.Update(s.View(), store.Everything(s.View()))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	for _, rep := range out.Reports {
		rep.Owner.Group = ""
		w.reports[rep.Owner] = rep
	}
	return w
}

func secrets(t *testing.T) (text string) {
	t.Helper()
	for _, s := range []struct {
		namespace, name string
		hosts           []string
	}{
		{"gateway-conformance-web-backend", "certificate", []string{"*"}},
		{infra, "tls-validity-checks-certificate", []string{"*", "*.org", "*.wildcard.org"}},
		{infra, "tls-checks-certificate", []string{"abc.example.com"}},
		{infra, "tls-terminate-checks-certificate", []string{"tls.example.com"}},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: s.hosts,
			NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		encode := func(typ string, der []byte) string {
			return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
		}
		text += fmt.Sprintf(
			"---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {namespace: %s, name: "+
				"%s}\ndata:\n  tls.crt: %s\n  tls.key: %s\n",
			s.namespace, s.name, encode("CERTIFICATE", der), encode("PRIVATE KEY", raw))
	}
	return text
}

func TestConformance_SuiteManifestsServeAsExpected(t *testing.T) {
	root := suite(t)
	f, err := os.Open(filepath.Join("testdata", "expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var w *world
	var manifest string
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "== "); ok {
			manifest = name
			w = read(t, filepath.Join(root, "base", "manifests.yaml"), filepath.Join(root, "tests", name))
			continue
		}
		if wrong := w.check(line); wrong != "" {
			t.Errorf("expected.txt:%d: %s: %s\n\tgot %s", number, manifest, line, wrong)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// check compares the translation with a line. It returns the difference, or "".
func (w *world) check(line string) string {
	if ask, want, ok := strings.Cut(line, " -> "); ok {
		return differs(want, w.ask(strings.Fields(ask)))
	}
	words := strings.Fields(line)
	if words[1] == "sets" {
		return differs(words[2], strconv.Itoa(int(w.reports[ref("Gateway", words[0])].AttachedListenerSets)))
	}
	subject, conditions, _ := strings.Cut(line, ": ")
	words = strings.Fields(strings.TrimSuffix(subject, ":"))
	rep, ok := w.reports[ref(words[0], words[1])]
	if !ok {
		return "it has no conditions"
	}
	switch {
	case len(words) == 2:
		return missing(conditions, rep.Conditions)
	case words[2] == "listener":
		return listener(words[3:], conditions, rep.Listeners)
	}
	parents := make([]string, 0, len(rep.Parents))
	for _, p := range rep.Parents {
		name := parentText(p.Ref)
		if name == strings.Join(words[3:], " ") {
			return missing(conditions, p.Conditions)
		}
		parents = append(parents, name)
	}
	return fmt.Sprintf("parents %q", parents)
}

func ref(kind, name string) report.Ref {
	namespace, short := store.ParseID(name)
	return report.Ref{Kind: kind, Namespace: cmp.Or(namespace, infra), Name: short}
}

func parentText(p report.ParentRef) string {
	text := p.Name
	if p.Namespace != infra {
		text = p.Namespace + "/" + text
	}
	if p.SectionName != "" {
		text += "/" + p.SectionName
	}
	if p.Port != 0 {
		text += fmt.Sprintf(":%d", p.Port)
	}
	if p.Kind != "Gateway" {
		text = p.Kind + " " + text
	}
	return text
}

func listener(words []string, conditions string, list []report.Listener) string {
	for _, l := range list {
		if l.Name != words[0] {
			continue
		}
		if n := fmt.Sprint(l.AttachedRoutes); n != words[1] {
			return n + " attached routes"
		}
		for _, kind := range words[2:] {
			if kind == "none" && len(l.SupportedKinds) == 0 {
				continue
			}
			if !slices.ContainsFunc(l.SupportedKinds, func(r report.Ref) bool { return r.Kind == kind }) {
				return fmt.Sprintf("kinds %v", l.SupportedKinds)
			}
		}
		return missing(conditions, l.Conditions)
	}
	return "no such listener"
}

func missing(want string, have []report.Condition) string {
	for _, text := range strings.Fields(want) {
		text, reason, _ := strings.Cut(text, "/")
		typ, status, _ := strings.Cut(text, "=")
		c := report.Find(have, typ)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Sprintf("%+v", have)
		}
	}
	return ""
}

// ask returns a request's or connection's backends with their shares, or the beginning of the
// response.
func (w *world) ask(words []string) string {
	u, err := url.Parse(words[1])
	if err != nil {
		return err.Error()
	}
	q := translator.Query{URL: u, Gateway: ref("Gateway", words[0]).Key(), Header: http.Header{}}
	for _, h := range words[2:] {
		name, value, _ := strings.Cut(h, "=")
		q.Header.Set(name, value)
	}
	e := w.translator.Explain(q)
	var parts []string
	for _, b := range e.Backends {
		_, id, _ := strings.Cut(b.Backend, " ")
		part := strings.TrimPrefix(id, infra+"/")
		if b.Cluster == "" {
			part, _, _ = strings.Cut(b.NoPick, ":")
		}
		if len(e.Backends) > 1 {
			part += " " + b.Share
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		first, _, _ := strings.Cut(e.Answer, ":")
		return first
	}
	return strings.Join(parts, ", ")
}

func differs(want, got string) string {
	if want == got {
		return ""
	}
	return got
}
