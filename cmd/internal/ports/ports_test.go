package ports

import (
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

// opens are the calls that open a socket for clients.
var opens = []string{"net.Listen", "net.ListenTCP", "net.ListenUnix", "net.ListenPacket", "net.ListenUDP", "net.ListenConfig", "tls.Listen", "http.ListenAndServe", "http.ListenAndServeTLS", "unix.Listen", "syscall.Listen"}

// others are packages outside the product that open sockets, and why.
var others = map[string]string{
	"cmd/internal/ports":         "it opens them for all",
	"cmd/penstock/internal/sim":  "a simulated model server",
	"cmd/penstock/internal/demo": "the processor of make demo, on loopback",
	"xds/xdstest":                "for tests",
	"xds/xdstest/freeport":       "for tests",
	"picker/scoring/scoringtest": "for tests",
}

func TestPorts_NoOtherPackageOpensASocket(t *testing.T) {
	for _, root := range []string{"cmd", "discovery", "manifests", "multicluster", "picker", "translator", "xds"} {
		err := filepath.WalkDir(filepath.Join(top, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			folder, err := filepath.Rel(top, filepath.Dir(path))
			if err != nil {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if of, ok := s.X.(*ast.Ident); ok && slices.Contains(opens, of.Name+"."+s.Sel.Name) && others[folder] == "" {
					t.Errorf("%s opens a socket with %s.%s: add a row to ports.All, and call its Listen", files.Position(n.Pos()), of.Name, s.Sel.Name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
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
		t.Errorf("the ports share %.2f of the descriptors, want at most 0.80: the rest is for scraping, files, and connections to others", sum)
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
	go func() { // ends with the listener
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
		t.Errorf("%v %v", info.Mode(), err)
	}
}
