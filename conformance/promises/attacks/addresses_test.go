package attacks

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/nameserver"
)

// specials are addresses that lead to a gateway's machine, link or cloud, in every form that a
// connection accepts.
var specials = []string{
	"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1",
	"fe80::1", "0.0.0.0", "::", "224.0.0.1",
}

func pool(name string, addresses ...string) string {
	servers := make([]backend, len(addresses))
	for i, a := range addresses {
		servers[i] = backend{a, 8000}
	}
	return poolObjects(name, "/"+name, []string{"gw"}, servers...)
}

func (s *site) configured() string { return s.envoyPage("/clusters") }

func (s *site) envoyPage(path string) string {
	s.Helper()
	resp, err := http.Get("http://" + local(s.admin) + path)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// With any of these endpoints, Envoy would fetch its cloud's credentials for a client.
func TestModelServers_MetadataServerIsNoEndpoint(t *testing.T) {
	s := start(t, map[string]string{"pool.yaml": pool("attack", append(specials, "127.0.0.1", "192.0.2.7")...)},
		"--denied-cidrs", "192.0.2.0/24")
	traffic := s.traffic()
	s.Eventually("Envoy has the pool", func() error {
		// the folder's owner may name loopback
		if !strings.Contains(s.configured(), "pool/default/attack::127.0.0.1:8000") {
			return fmt.Errorf("its clusters:\n%s\nwant 127.0.0.1:8000", s.configured())
		}
		return nil
	})
	text := s.configured()
	for _, a := range append(specials, "192.0.2.7") {
		if strings.Contains(text, "::"+a+":8000") || strings.Contains(text, "::["+a+"]:8000") {
			t.Errorf("%s is an endpoint", a)
		}
	}
	s.Eventually("a finding names the field", func() error {
		if log := s.log("penstock"); !strings.Contains(log,
			"spec.servers[0].address: address 169.254.169.254 is a link-local address, which is never allowed") {
			return fmt.Errorf("the log:\n%s\nwant that spec.servers[0].address is link-local", log)
		}
		return nil
	})
	traffic.end()
}

func startDNS(t *testing.T) *nameserver.Server {
	t.Helper()
	d, err := nameserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A name first resolves to an allowed address, and then to the metadata server.
func TestHostname_RebindingNameLosesItsEndpoint(t *testing.T) {
	d := startDNS(t)
	d.Answer(netip.MustParseAddr("127.0.0.1"))
	s := start(t, map[string]string{"pool.yaml": pool("attack", "rebind.example")}, "--dns-server", d.Address())
	traffic := s.traffic()
	s.Eventually("the name is an endpoint", func() error {
		if !strings.Contains(s.configured(), "pool/default/attack::127.0.0.1:8000") {
			return fmt.Errorf("its clusters:\n%s\nwant 127.0.0.1:8000", s.configured())
		}
		return nil
	})
	d.Answer(netip.MustParseAddr("169.254.169.254"))
	s.Eventually("the endpoint is gone", func() error {
		text := s.configured()
		if strings.Contains(text, "169.254.169.254") {
			t.Fatal("the metadata server is an endpoint")
		}
		if strings.Contains(text, "pool/default/attack::127.0.0.1:8000") {
			return fmt.Errorf("its clusters:\n%s\nwant no 127.0.0.1:8000", text)
		}
		return nil
	})
	traffic.end()
}

func TestHostname_DeadNamesDelayNoOtherUser(t *testing.T) {
	d := startDNS(t)
	var dead []string
	for i := range 3000 {
		dead = append(dead, fmt.Sprintf("dead-%d.example", i))
	}
	files := map[string]string{
		"unused.yaml": "apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: unused}\nspec: " +
			"{servers: [{address: unused.example}]}\n",
	}
	for i := range 30 {
		files[fmt.Sprintf("dead-%d.yaml", i)] = pool(fmt.Sprint("dead-", i), dead[100*i:100*i+100]...)
	}
	begin := time.Now()
	s := start(t, files, "--dns-server", d.Address())
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the Gateway served after %s, want at most %s", took, 20*time.Second)
	}
	traffic := s.traffic()
	s.Eventually("the dead names are asked for", func() error {
		if !d.Asked("dead-2999.example.") {
			return fmt.Errorf("dead-2999.example. was not asked for, want it asked")
		}
		return nil
	})
	s.Write("alive.yaml", pool("alive", "localhost"))
	s.Eventually("a name that resolves is an endpoint", func() error {
		if !strings.Contains(s.configured(), "pool/default/alive::127.0.0.1:8000") {
			return fmt.Errorf("the pool alive has no 127.0.0.1:8000, want it")
		}
		return nil
	})
	if d.Asked("unused.example.") {
		t.Error("a name that nothing uses was resolved")
	}
	if size := s.logSize("penstock"); size > 4<<20 {
		t.Errorf("penstock logged %d bytes, want at most %d", size, 4<<20)
	}
	traffic.end()
}

func TestHealth_AnswersFromTheFirstMoment(t *testing.T) {
	s := prepare(t, nil)
	for i := range 400 {
		s.Write(fmt.Sprintf("pool-%d.yaml", i), pool(fmt.Sprint("p", i), "127.0.0.1"))
	}
	s.penstock = s.runConfined(binaries.penstock)
	healthyFirst := false
	s.Eventually("penstock is ready", func() error {
		health := s.penstock.Answers("http://" + local(s.http) + "/healthz")
		ready := s.penstock.Answers("http://" + local(s.http) + "/readyz")
		healthyFirst = healthyFirst || health == nil && ready != nil
		return ready
	})
	if !healthyFirst {
		t.Error("/healthz answered no sooner than /readyz")
	}
}
