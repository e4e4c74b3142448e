package ports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

const top = "../../.."

// others lists packages that may open sockets, with the reason.
var others = map[string]string{
	"xds/admission/ports":                 "it opens them for all",
	"picker/modelserver":                  "a simulated model server",
	"xds/xdstest":                         "for tests",
	"xds/xdstest/freeport":                "for tests",
	"picker/scoring/scoringtest":          "for tests",
	"picker/upstream/upstreamtest":        "for tests",
	"discovery/kube/kubetest":             "for tests",
	"discovery/engine/fetch/registrytest": "for tests",
	"xds/xdstest/holding":                 "for tests",
	"discovery/engine/controller":         "it looks whether a port is free, and closes it at once",
}

func TestPorts_NoOtherPackageOpensASocket(t *testing.T) {
	for _, root := range []string{"cmd", "discovery", "manifests", "multicluster", "picker", "translator", "xds"} {
		err := filepath.WalkDir(filepath.Join(top, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			folder, err := filepath.Rel(top, filepath.Dir(path))
			if err != nil || others[folder] != "" {
				return err
			}
			found, err := opened(path, nil)
			for _, what := range found {
				t.Errorf("%s: add a row to ports.All, and call its Listen", what)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPorts_EveryWayToOpenASocketIsFound(t *testing.T) {
	for _, c := range []struct {
		imports, code string
		found         int
	}{
		{`"net"`, "net.Listen(a, b)", 1},
		{`"net"`, "net.ListenTCP(a, b)", 1},
		{`"net"`, "net.ListenUnix(a, b)", 1},
		{`"net"`, "net.ListenUnixgram(a, b)", 1},
		{`"net"`, "net.ListenIP(a, b)", 1},
		{`"net"`, "net.ListenUDP(a, b)", 1},
		{`"net"`, "net.ListenMulticastUDP(a, b, c)", 1},
		{`"net"`, "net.ListenPacket(a, b)", 1},
		{`"net"`, "var c net.ListenConfig; _, _ = c.Listen(a, b, d)", 1},
		{`"net"`, "_, _ = new(net.ListenConfig).ListenPacket(a, b, c)", 1},
		{`"net"`, "net.FileListener(f)", 1},
		{`"net"`, "net.FilePacketConn(f)", 1},
		{`"net"`, "open := net.Listen; _ = open", 1},
		{`sockets "net"`, "sockets.Listen(a, b)", 1},
		{`. "net"`, "Listen(a, b)", 1},
		{`"crypto/tls"`, "tls.Listen(a, b, c)", 1},
		{`"net/http"`, "http.ListenAndServe(a, b)", 1},
		{`"net/http"`, "http.ListenAndServeTLS(a, b, c, d)", 1},
		{`"net/http"`, "s := &http.Server{}; s.ListenAndServe()", 1},
		{`"net/http"`, "s := &http.Server{}; s.ListenAndServeTLS(a, b)", 1},
		{`"net/http/httptest"`, "httptest.NewServer(h)", 1},
		{`"net/http/httptest"`, "httptest.NewUnstartedServer(h)", 1},
		{`"net/http/fcgi"`, "fcgi.Serve(nil, h)", 1},
		{`"syscall"`, "syscall.Listen(a, b)", 1},
		{`"syscall"`, "syscall.Bind(a, b)", 1},
		{`"golang.org/x/sys/unix"`, "unix.Listen(a, b)", 1},
		{`"golang.org/x/sys/unix"`, "unix.Bind(a, b)", 1},
		{`"golang.org/x/net/icmp"`, "icmp.ListenPacket(a, b)", 1},
		{`"github.com/quic-go/quic-go"`, "quic.ListenAddr(a, b, c)", 1},
		{`"github.com/quic-go/quic-go/http3"`, "http3.ListenAndServeQUIC(a, b, c, d)", 1},
		{`"golang.org/x/crypto/acme/autocert"`, "autocert.NewListener(a)", 1},
		{`"github.com/penstock-project/penstock/xds/admission"`, "admission.Listen(l, c)", 0},
		{`"net"`, "net.Dial(a, b)", 0},
		{`"net"`, "port.Listen(a, b, c)", 0},
		{`"google.golang.org/grpc"`, "s := grpc.NewServer(); s.Serve(l)", 0},
		{`"net/http"`, "s := &http.Server{}; s.Serve(l)", 0},
	} {
		found, err := opened("x.go", "package x\nimport "+c.imports+"\nfunc f() { "+c.code+" }")
		if err != nil || len(found) != c.found {
			t.Errorf("import %s, %s: found %q, want %d: %v", c.imports, c.code, found, c.found, err)
		}
	}
}

const module = "github.com/penstock-project/penstock/"

// opened lists the calls in a file that open sockets. If source is nil, the file is on disk.
func opened(path string, source any) (found []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		return nil, err
	}
	imported := map[string]string{} // import paths by name
	for _, spec := range file.Imports {
		from := strings.Trim(spec.Path.Value, `"`)
		name := filepath.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			found = append(found,
				fmt.Sprintf("%s may open sockets: it imports %s without a name", files.Position(spec.Pos()), from))
		}
		imported[name] = from
		if spec.Name == nil {
			imported[strings.TrimSuffix(name, "-go")] = from // quic-go's package is named quic
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		qualifier, from := "", ""
		if x, ok := s.X.(*ast.Ident); ok {
			qualifier, from = x.Name, imported[x.Name]
		}
		other := from != "" && !strings.HasPrefix(from, module)
		if from == "" && slices.Contains(methods, s.Sel.Name) || other && opens(from, s.Sel.Name) {
			found = append(found,
				fmt.Sprintf("%s opens a socket with %s.%s", files.Position(n.Pos()), qualifier, s.Sel.Name))
		}
		return true
	})
	return found, nil
}

var methods = []string{"ListenAndServe", "ListenAndServeTLS", "ListenAndServeQUIC"}

func opens(from, name string) bool {
	switch from {
	case "net/http/httptest":
		return strings.HasPrefix(name, "New") && strings.HasSuffix(name, "Server")
	case "net/http/fcgi":
		return name == "Serve" // the socket is standard input
	}
	return strings.HasPrefix(name, "Listen") && !strings.HasPrefix(name, "Listener") ||
		slices.Contains([]string{"FileListener", "FilePacketConn", "NewListener", "Bind"}, name) && from != "crypto/tls"
}

func TestPorts_EachHasLimitsAndAnAttack(t *testing.T) {
	var attacks strings.Builder
	files, err := filepath.Glob(filepath.Join(top, "conformance/promises/attacks/*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no attacks: %v", err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		attacks.Write(raw)
	}
	sum := 0.0
	for _, p := range append(slices.Clone(All), External) {
		if p.Name == "" || p.Clients == "" || p.Share <= 0 || p.Share > 0.5 {
			t.Errorf("%+v lacks a name, its clients, or a share of the descriptors", p)
		}
		if !regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(p.Attack) + `\(t `).MatchString(attacks.String()) {
			t.Errorf("port %s: conformance/promises/attacks has no test %q", p.Name, p.Attack)
		}
		if p.Name != External.Name {
			sum += p.Share
		}
	}
	if sum > 0.801 {
		t.Errorf(
			"the ports share %.2f of the descriptors, want at most 0.80: the rest is for scraping, files, and "+
				"connections to others", sum)
	}
}

func TestPorts_OpenConnectionsAreBounded(t *testing.T) {
	p := Port{Name: "test", Clients: "clients", Share: 1e-9}
	l, err := p.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = p.Open(l)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 3 * least {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	poll.Until(t, "half of the connections are accepted", func() bool { return len(accepted) == least/2 })
	for range least / 2 {
		_ = (<-accepted).Close()
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	poll.Until(t, "a closed connection makes room", func() bool { return len(accepted) > 0 })
}

func TestPorts_SocketIsPrivateWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	l, err := Local.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want 0600", info.Mode(), err)
	}
}
