package envoy

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

func BenchmarkVirtualHost(b *testing.B) {
	for b.Loop() {
		if _, err := VirtualHost(benchHost("a.example")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOneOf5000Hosts(b *testing.B) {
	hosts := make([][]*Encoded, blocks)
	for i := range 5000 {
		vh, err := VirtualHost(benchHost(fmt.Sprintf("h%d.example", i)))
		if err != nil {
			b.Fatal(err)
		}
		hosts[BlockOf(vh.Host)] = append(hosts[BlockOf(vh.Host)], vh)
	}
	encoded := make([]*Block, blocks)
	for i := range encoded {
		var err error
		if encoded[i], err = NewBlock(hosts[i]); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		var err error
		if encoded[0], err = NewBlock(hosts[0]); err != nil {
			b.Fatal(err)
		}
		if _, err := RouteConfiguration("http/80", model.Chain{}, encoded...); err != nil {
			b.Fatal(err)
		}
	}
}

func benchHost(host string) *model.VirtualHost {
	vh := &model.VirtualHost{Chain: "http/80", Host: host}
	for i := range 3 {
		vh.Routes = append(vh.Routes, model.Route{
			Name:  fmt.Sprint(i),
			Match: prefix(fmt.Sprintf("/v%d", i)),
			Action: &model.Action{
				Forward: &model.Forward{Backends: []model.WeightedBackend{pool("pool", "ns/pool", model.BodyBuffered)}},
			},
		})
	}
	return vh
}
