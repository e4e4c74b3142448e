package model_test

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// Names are Envoy's handles on what it runs: two things with one name would be one, and a changed name drains a cluster.
func TestNamesOfDifferentThingsDiffer(t *testing.T) {
	seen := map[string]string{}
	for what, name := range map[string]string{
		"service":             model.ServiceCluster("ns", "a", 80),
		"trust of a policy":   model.PolicyTrust("ns", "a"),
		"trust of a gateway":  model.GatewayTrust("ns", "a", 0),
		"certificate":         model.SecretName("ns", "a"),
		"grpc":                model.GRPCCluster("ns", "a", 80),
		"tcp":                 model.TCPCluster("ns", "a", 80),
		"passthrough":         model.PassthroughCluster(model.TCPCluster("ns", "a", 80)),
		"picker":              model.PickerCluster("ns", "a", 80),
		"pool":                model.PoolCluster("ns", "a"),
		"import":              model.ImportCluster("ns", "a", "east"),
		"import picker":       model.ImportPickerCluster("ns", "a", "east"),
		"pool, last":          model.LastCluster(model.PoolCluster("ns", "a")),
		"import, last":        model.LastCluster(model.ImportCluster("ns", "a", "east")),
		"hop of a pool":       model.HopName("InferencePool", "ns", "a"),
		"hop of an import":    model.HopName("InferencePoolImport", "ns", "a"),
		"our picker":          model.OurPicker,
		"dots move no border": model.HopName("InferencePool", "ns", "pool.a"),
	} {
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are both %q", what, other, name)
		}
		seen[name] = what
	}
}

func TestAnImportsPoolAndItsOwnHopNameTheCluster(t *testing.T) {
	ref := report.Ref{Kind: "InferencePoolImport", Namespace: "ns", Name: "llm"}
	p := &model.Pool{Name: model.PoolName("ns", "llm", "cluster-a"), Ref: ref}
	if p.Name != "ns/llm@cluster-a" || p.OwnHop() != "hop.ns.import.llm@cluster-a" {
		t.Errorf("pool %s, hop %s", p.Name, p.OwnHop())
	}
	if got := model.HopAddress(p.OwnHop()); got != "envoy://hop.ns.import.llm@cluster-a/" {
		t.Errorf("a picker names it %s", got)
	}
}

func TestACleartextPortIsOneChainAndEachHTTPSHostnameIsItsOwn(t *testing.T) {
	if model.ChainName(false, 80, "a.com") != model.ChainName(false, 80, "b.com") {
		t.Error("listeners of one cleartext port must share a chain")
	}
	if model.ChainName(true, 443, "a.com") == model.ChainName(true, 443, "*.a.com") {
		t.Error("HTTPS listeners must not")
	}
}
