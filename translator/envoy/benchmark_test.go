package envoy

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// One of many virtual hosts changes: what encoding and checking it costs, and putting 5,000 together.
func BenchmarkVirtualHost(b *testing.B) {
	for b.Loop() {
		if _, err := VirtualHost(benchHost("a.example")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRouteConfigurationOf5000Hosts(b *testing.B) {
	var hosts []*Encoded
	for i := range 5000 {
		vh, err := VirtualHost(benchHost(fmt.Sprintf("h%d.example", i)))
		if err != nil {
			b.Fatal(err)
		}
		hosts = append(hosts, vh)
	}
	for b.Loop() {
		if _, err := RouteConfiguration("http/80", model.Chain{}, hosts); err != nil {
			b.Fatal(err)
		}
	}
}

func benchHost(host string) *model.VirtualHost {
	vh := &model.VirtualHost{Chain: "http/80", Host: host}
	for i := range 3 {
		vh.Routes = append(vh.Routes, model.Route{
			Name:   fmt.Sprint(i),
			Match:  prefix(fmt.Sprintf("/v%d", i)),
			Action: &model.Action{Forward: &model.Forward{Backends: []model.WeightedBackend{pool("pool", "ns/pool", model.BodyBuffered)}}},
		})
	}
	return vh
}
