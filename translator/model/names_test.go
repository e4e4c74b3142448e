package model_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// Envoy identifies objects by their names.
func TestNames_DifferForDifferentThings(t *testing.T) {
	seen := map[string]string{}
	for what, name := range map[string]fmt.Stringer{
		"service":             model.ServiceCluster("ns", "a", 80),
		"trust of a policy":   text(model.PolicyTrust("ns", "a")),
		"trust of a gateway":  text(model.GatewayTrust("ns", "a", 0)),
		"certificate":         text(model.SecretName("ns", "a")),
		"grpc":                model.GRPCCluster("ns", "a", 80),
		"tcp":                 model.ServiceCluster("ns", "a", 80).WithKind(model.TCPKind),
		"passthrough":         model.ServiceCluster("ns", "a", 80).WithKind(model.PassthroughKind),
		"udp":                 model.ServiceCluster("ns", "a", 80).WithKind(model.UDPKind),
		"datagrams":           model.DatagramCluster("ns", "a", 80),
		"picker":              model.PickerCluster("ns", "a", 80),
		"picker, health":      model.PickerCluster("ns", "a", 80).As(model.HealthVariant),
		"pool":                model.PoolCluster("ns", "a"),
		"import":              model.ImportCluster("ns", "a", "east"),
		"parent":              model.ParentCluster("ns", "a", "east"),
		"import picker":       model.ImportPickerCluster("ns", "a", "east"),
		"pool, last":          model.PoolCluster("ns", "a").As(model.LastVariant),
		"pool, hops":          model.PoolCluster("ns", "a").As(model.HopsVariant),
		"pool, hops, subset":  subsetOf(model.PoolCluster("ns", "a"), model.SubsetMember("ns", "b.c")),
		"import, last":        model.ImportCluster("ns", "a", "east").As(model.LastVariant),
		"hop of a pool":       model.HopTo("InferencePool", "ns", "a"),
		"hop of an import":    model.HopTo("InferencePoolImport", "ns", "a"),
		"our picker":          model.OurPicker,
		"dots move no border": model.HopTo("InferencePool", "ns", "pool.a"),
	} {
		if other, taken := seen[name.String()]; taken {
			t.Errorf("%s and %s are both %q, want two names", what, other, name)
		}
		seen[name.String()] = what
	}
}

func subsetOf(id model.ClusterID, member string) model.ClusterID {
	id.Member = member
	return id.As(model.HopsVariant)
}

func configured(id model.ClusterID, config uint16) model.ClusterID {
	id.Config = config
	return id
}

type text string

func (s text) String() string { return string(s) }

// Cluster names must not change: they are in the configuration of running Envoys, and in users'
// metrics and dashboards.
func TestClusterID_NamesStayWhatTheyAre(t *testing.T) {
	for id, want := range map[model.ClusterID]string{
		model.OurPicker:                     "penstock-picker",
		model.Collector:                     "penstock-otlp",
		model.ServiceCluster("ns", "a", 80): "service/ns/a/80",
		model.GRPCCluster("ns", "a", 80):    "grpc/ns/a/80",
		model.ServiceCluster("ns", "a", 80).WithKind(model.TCPKind):          "tcp/ns/a/80",
		model.PickerCluster("ns", "a", 9002):                                 "picker/ns/a/9002",
		model.ServiceCluster("ns", "a", 80).WithKind(model.PassthroughKind):  "passthrough/ns/a/80",
		model.PickerCluster("ns", "a", 9002).As(model.HealthVariant):         "health/picker/ns/a/9002",
		model.PoolCluster("ns", "a"):                                         "pool/ns/a",
		model.PoolCluster("ns", "a").As(model.LastVariant):                   "last/pool/ns/a",
		model.PoolCluster("ns", "a").As(model.HopsVariant):                   "hops/pool/ns/a",
		model.ImportCluster("ns", "a", "east"):                               "import/ns/a/east",
		model.ParentCluster("ns", "a", "east"):                               "parent/ns/a/east",
		model.ImportPickerCluster("ns", "a", "east"):                         "import-picker/ns/a/east",
		model.ImportPickerCluster("ns", "a", "east").As(model.HealthVariant): "health/import-picker/ns/a/east",
		configured(model.PickerCluster("ns", "a", 9002), 0xf3c):              "picker/ns/a/9002/0f3c",
		configured(model.ImportPickerCluster("ns", "a", "east"), 0xf3c):      "import-picker/ns/a/east/0f3c",
	} {
		if got := id.String(); got != want {
			t.Errorf("%#v is named %q, want %q", id, got, want)
		}
	}
}

// pick draws random IDs from words that look like parts of names.
type pick struct{ *rand.Rand }

func (p pick) word() string {
	words := []string{"a", "b.c", "hop", "pool", "import", "last", "hops", "health", "service", "x-1", "80", "trust"}
	return words[p.IntN(len(words))]
}

func (p pick) cluster() model.ClusterID {
	kinds := []model.ClusterID{
		model.ServiceCluster(p.word(), p.word(), p.Int32N(65536)),
		model.GRPCCluster(p.word(), p.word(), p.Int32N(65536)),
		model.ServiceCluster(p.word(), p.word(), p.Int32N(65536)).WithKind(model.TCPKind),
		model.PickerCluster(p.word(), p.word(), p.Int32N(65536)),
		model.ServiceCluster(p.word(), p.word(), 80).WithKind(model.PassthroughKind),
		model.PoolCluster(p.word(), p.word()), model.ImportCluster(p.word(), p.word(), p.word()),
		model.ParentCluster(p.word(), p.word(), p.word()), model.ImportPickerCluster(p.word(), p.word(), p.word()),
		model.OurPicker, model.Collector,
		model.DatagramCluster(p.word(), p.word(), uint16(p.IntN(65536))),
		model.ServiceCluster(p.word(), p.word(), 80).WithKind(model.UDPKind),
	}
	if p.IntN(10) == 0 {
		return subsetOf(model.PoolCluster(p.word(), p.word()), p.word())
	}
	variants := []model.ClusterVariant{model.Plain, model.LastVariant, model.HopsVariant, model.HealthVariant}
	id := kinds[p.IntN(len(kinds))].As(variants[p.IntN(len(variants))])
	if id.External() && p.IntN(2) == 0 {
		return configured(id, uint16(p.IntN(1<<16)))
	}
	return id
}

func TestClusterID_ParseReadsWhatStringMakes(t *testing.T) {
	p := pick{rand.New(rand.NewPCG(1, 2))}
	for range 20_000 {
		id := p.cluster()
		if got, ok := model.ParseClusterID(id.String()); !ok || got != id {
			t.Fatalf("%#v is named %q, which reads as %#v, %t; want itself", id, id, got, ok)
		}
		other := p.cluster()
		if (id.Compare(other) == 0) != (id == other) || (id.String() == other.String()) != (id == other) {
			t.Fatalf("%#v and %#v: compare %d, names %q and %q; want 0 and one name if and only if they are equal",
				id, other, id.Compare(other), id, other)
		}
	}
}

func TestHopID_ParseReadsWhatStringMakes(t *testing.T) {
	p := pick{rand.New(rand.NewPCG(3, 4))}
	for range 20_000 {
		id := model.HopID{Import: p.IntN(2) == 0, Namespace: "ns-" + fmt.Sprint(p.IntN(9)), Name: p.word()}
		if p.IntN(2) == 0 {
			id.Member = p.word()
		}
		if got, ok := model.ParseHopID(id.String()); !ok || got != id {
			t.Fatalf("%#v is named %q, which reads as %#v, %t; want itself", id, id, got, ok)
		}
	}
}

func TestSecretID_ParseReadsWhatStringMakes(t *testing.T) {
	for _, id := range []model.SecretID{
		{Kind: model.CertificateSecret, Namespace: "ns", Name: "a.b"},
		{Kind: model.PolicyTrustSecret, Namespace: "ns", Name: "gateway"},
		{Kind: model.GatewayTrustSecret, Namespace: "ns", Name: "gw"},
		{Kind: model.GatewayTrustSecret, Namespace: "ns", Name: "gw", Port: 8443},
	} {
		if got, ok := model.ParseSecretID(id.String()); !ok || got != id {
			t.Errorf("%#v is named %q, which reads as %#v, %t; want itself", id, id, got, ok)
		}
	}
	for _, name := range []string{"", model.OwnKey, model.OwnTrust, "secret/a", "secret/a/b/c", "trust/gateway/ns/gw",
		"trust/gateway/ns/gw/08"} {
		if id, ok := model.ParseSecretID(name); ok {
			t.Errorf("%q reads as %#v, want none", name, id)
		}
	}
}

// Two strings must not name one cluster.
func FuzzClusterID_IsWhatItWasReadFrom(f *testing.F) {
	p := pick{rand.New(rand.NewPCG(7, 8))}
	for range 50 {
		f.Add(p.cluster().String())
	}
	for _, name := range []string{"", "/", "last/", "last/last/pool/a/b", "service/a/b/080", "service/a/b/+1", "pool/a",
		"pool/a/b/c", "hops/pool/a/b/c", "hops/pool/a/b/", "hops", "health/x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := model.ParseClusterID(name); ok && (id.String() != name || id.IsZero()) {
			t.Errorf("%q reads as %#v, whose name is %q, want the same", name, id, id)
		}
		if id, ok := model.ParseHopID(name); ok && id.String() != name {
			t.Errorf("%q reads as %#v, whose name is %q, want the same", name, id, id)
		}
		if id, ok := model.ParseSecretID(name); ok && id.String() != name {
			t.Errorf("%q reads as %#v, whose name is %q, want the same", name, id, id)
		}
	})
}

func TestHopID_TargetIsWhatIsBehindIt(t *testing.T) {
	for hop, want := range map[string]string{
		"hop.ns.pool.llm": "ns/llm", "hop.ns.pool.llm@ns.subset": "ns/llm", "hop.ns.import.llm": "ns/llm@",
		"hop.ns.import.llm@_2a": "ns/llm@", "hop.ns.import.llm@west": "ns/llm@west",
	} {
		if id, ok := model.ParseHopID(hop); !ok || id.Target().String() != want {
			t.Errorf("behind %s is %s, want %s", hop, id.Target(), want)
		}
	}
}

func TestHopID_NamesTheExportingClusterOfAnImport(t *testing.T) {
	ref := report.Ref{Kind: "InferencePoolImport", Namespace: "ns", Name: "llm"}
	p := &model.Pool{Name: objectid.Target{Pool: objectid.Pool{Namespace: "ns", Name: "llm"}, Member: "cluster-a"},
		Ref: ref}
	if p.Name.String() != "ns/llm@cluster-a" || p.OwnHop().String() != "hop.ns.import.llm@cluster-a" {
		t.Errorf(`pool %s, hop %s, want "ns/llm@cluster-a" and "hop.ns.import.llm@cluster-a"`, p.Name, p.OwnHop())
	}
	if got := p.OwnHop().Address(); got != "envoy://hops/hop.ns.import.llm@cluster-a" {
		t.Errorf(`a picker names it %s, want "envoy://hops/hop.ns.import.llm@cluster-a"`, got)
	}
	// Envoy ignores the case of names, and pickers separate names by commas. So upper case and
	// other bytes of an exporting cluster's name must be escaped.
	p.Name.Member = "East, *_"
	if got := p.OwnHop().String(); got != "hop.ns.import.llm@_45ast_2c_20_2a_5f" {
		t.Errorf(`a strange name makes it %s, want "hop.ns.import.llm@_45ast_2c_20_2a_5f"`, got)
	}
}

func TestChainName_OneForACleartextPortAndOneForEachHTTPSHostname(t *testing.T) {
	if model.ChainName(false, 80, "a.com") != model.ChainName(false, 80, "b.com") {
		t.Error("listeners of one cleartext port must share a chain")
	}
	if model.ChainName(true, 443, "a.com") == model.ChainName(true, 443, "*.a.com") {
		t.Error("HTTPS listeners must not")
	}
}

func TestParseChain_ReadsSchemeAndPort(t *testing.T) {
	for name, want := range map[string]struct {
		scheme model.Scheme
		port   uint16
	}{
		model.ChainName(false, 80, ""):           {model.SchemeHTTP, 80},
		model.ChainName(true, 443, "*.a.com"):    {model.SchemeHTTPS, 443},
		model.StreamName(false, 5432, ""):        {model.SchemeTCP, 5432},
		model.StreamName(true, 8443, "db.a.com"): {model.SchemeTLS, 8443},
		model.DatagramName(53):                   {model.SchemeUDP, 53},
	} {
		if scheme, port, ok := model.ParseChain(name); !ok || scheme != want.scheme || port != want.port {
			t.Errorf("%s reads as %s, %d, %t; want %s, %d", name, scheme, port, ok, want.scheme, want.port)
		}
	}
	for _, name := range []string{"", "http", "http/80/a", "https/443", "https/443/", "hop.ns.pool.a", "udp/53/a",
		"sctp/53", "http/080", "http/65536"} {
		if scheme, port, ok := model.ParseChain(name); ok {
			t.Errorf("%s reads as %s, %d; want none", name, scheme, port)
		}
	}
}

func TestListenerName_OfUDPIsAnotherThanOfTCP(t *testing.T) {
	for _, s := range []model.Socket{{Port: 53}, {Port: 53, UDP: true}, {Port: 65535, UDP: true}} {
		if got, ok := model.ParseListenerName(s.Listener()); !ok || got != s {
			t.Errorf("%s reads as %v, %t; want %v", s.Listener(), got, ok, s)
		}
	}
	for _, name := range []string{"", "listener/", "listener/udp/", "listener/udp/53/", "listener/UDP/53", "hops",
		"udp/53"} {
		if s, ok := model.ParseListenerName(name); ok {
			t.Errorf("%q reads as %v, want none", name, s)
		}
	}
}
