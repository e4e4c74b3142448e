package main

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/promises/nameserver"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// deadNames has 1,000 pools of ten model servers each.
var deadNames = world.Size{Hosts: 2000, Backends: 2000, Endpoints: 10, Port: 8080}

func measureDeadNames(ctx context.Context, c config, out report) error {
	dns, err := nameserver.Start() // it drops every query
	if err != nil {
		return err
	}
	defer func() { _ = dns.Close() }()
	want, err := resourcesOf(deadNames)
	if err != nil {
		return err
	}
	var names, addresses []time.Duration
	for range 5 {
		for _, turn := range []struct {
			adapt func(any) any
			times *[]time.Duration
		}{{named, &names}, {nil, &addresses}} {
			took, err := startWith(ctx, c, dns.Address(), turn.adapt, want)
			if err != nil {
				return err
			}
			*turn.times = append(*turn.times, took)
		}
	}
	out("dead_names_start", "", median(names).Seconds()/median(addresses).Seconds())
	return nil
}

func startWith(ctx context.Context, c config, dns string, adapt func(any) any, want int) (time.Duration, error) {
	w, err := world.New(deadNames)
	if err != nil {
		return 0, err
	}
	w.Adapt = adapt
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return 0, err
	}
	defer remove()
	took, _, p, err := coldStart(ctx, c, files, state, want, "--dns-server", dns)
	if err != nil {
		return 0, err
	}
	p.stop()
	return took, nil
}

func named(object any) any {
	m, ok := object.(*v1alpha1.ModelServers)
	if !ok {
		return object
	}
	for i := range m.Spec.Servers {
		m.Spec.Servers[i].Address = fmt.Sprintf("server-%d.%s.example", i, m.Name)
	}
	return m
}
