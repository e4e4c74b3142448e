package registry_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// A member must not choose the name of a Secret in its export. The name would select a Secret of
// the importer, which would send the Secret to the member.
func TestSecretRef_MemberDoesNotChooseIt(t *testing.T) {
	r, e := set(), export(chat, stamp(1, 1), "10.0.0.1")
	e.Entry.EndpointPicker.Health = &inferenceapi.EndpointImport{
		Port: 9003, SecretRef: &corev1.SecretReference{Name: "own"},
	}
	e.Entry.EndpointPicker.Metrics = &inferenceapi.EndpointImport{
		Port: 9090, SecretRef: &corev1.SecretReference{Name: "own"},
	}
	apply(t, r,
		registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true, Exports: []registry.Export{e}})
	got := r.Exports(nil, chat)[0].Entry.EndpointPicker
	if want := (inferenceapi.EndpointImport{Port: 9003}); got.Health == nil || *got.Health != want {
		t.Errorf("health: got %+v, want port 9003 alone", got.Health)
	}
	if want := (inferenceapi.EndpointImport{Port: 9090}); got.Metrics == nil || *got.Metrics != want {
		t.Errorf("metrics: got %+v, want port 9090 alone", got.Metrics)
	}
}

// services makes ServiceImports with this many addresses and ports.
func services(addresses, ports int) inferenceapi.ServiceImports {
	s := inferenceapi.ServiceImport{}
	for i := range addresses {
		s.Addresses = append(s.Addresses, fmt.Sprint("192.0.2.", i))
	}
	for i := range ports {
		s.Ports = append(s.Ports, inferenceapi.Port{Number: int32(i + 1)})
	}
	return inferenceapi.ServiceImports{s}
}

// hostile returns, by problem, exports that no API server accepts in an import.
func hostile() map[string]func(*registry.Export) {
	weight := func(n int32) func(*registry.Export) { return func(e *registry.Export) { e.Entry.Weight = &n } }
	parent := inferenceapi.ParentImport{Service: services(1, 1)}
	out := map[string]func(*registry.Export){
		"its weight is -1, at least 0":              weight(-1),
		"its weight is 1000001, at most 1000000":    weight(1_000_001),
		"its weight is 2147483647, at most 1000000": weight(1<<31 - 1),
		"it is invalid: EndpointMode needs targetPorts (or targetPortNumber)": func(e *registry.Export) {
			e.Entry.TargetPortNumber, e.Entry.TargetPorts = 0, nil
		},
		"its targetPorts has 9 elements, at most 8": func(e *registry.Export) {
			e.Entry.TargetPorts = services(0, 9)[0].Ports
		},
		"its endpointPicker.service[0].addresses has 65 elements, at most 64": func(e *registry.Export) {
			e.Entry.EndpointPicker.Service = services(65, 1)
		},
		"its endpointPicker.service has 0 elements, at least 1": func(e *registry.Export) {
			e.Entry.EndpointPicker.Service = inferenceapi.ServiceImports{}
		},
		"its endpointPicker.service is missing": func(e *registry.Export) { e.Entry.EndpointPicker.Service = nil },
		"its endpointPicker.name has 143360 characters, at most 253": func(e *registry.Export) {
			e.Entry.EndpointPicker.Name = strings.Repeat("a", 140<<10)
		},
		"its endpointPicker.service[0].ports[0].appProtocol has 1048576 characters, at most 317": func(
			e *registry.Export) {
			e.Entry.EndpointPicker.Service = inferenceapi.ServiceImports{{
				Ports: []inferenceapi.Port{{Number: 1, AppProtocol: strings.Repeat("a", 1<<20)}},
			}}
		},
		"its endpointPicker.service[0].addresses[0] is not UTF-8": func(e *registry.Export) {
			e.Entry.EndpointPicker.Service = inferenceapi.ServiceImports{{Addresses: []string{"a\xff"}}}
		},
		`its endpointPicker.pool is "Team/chat", which does not match`: func(e *registry.Export) {
			e.Entry.EndpointPicker.Pool = "Team/chat"
		},
		`its endpointPicker.service[0].type is "Other", and is to be`: func(e *registry.Export) {
			e.Entry.EndpointPicker.Service = inferenceapi.ServiceImports{{Type: "Other"}}
		},
		`its podCIDRs[1] has "10.0.0.0/8" twice`: func(e *registry.Export) {
			e.Entry.PodCIDRs = []string{"10.0.0.0/8", "10.0.0.0/8"}
		},
		"its parents has 17 elements, at most 16": func(e *registry.Export) {
			e.Entry.Parents = slices.Repeat([]inferenceapi.ParentImport{parent}, 17)
		},
		`its parents[0].hostname is "a b", which does not match`: func(e *registry.Export) {
			e.Entry.Parents = []inferenceapi.ParentImport{{Service: services(1, 1), Hostname: "a b"}}
		},
		"bytes, at most 32768": func(e *registry.Export) {
			e.Entry.Parents = slices.Repeat([]inferenceapi.ParentImport{{Service: slices.Repeat(services(64, 16), 4)}},
				16)
		},
		`its routingMode is "", and is to be EndpointMode, ParentMode`: func(e *registry.Export) {
			e.Entry.RoutingMode = ""
		},
		`its failureMode is "Fail", and is to be FailOpen, FailClose`: func(e *registry.Export) {
			e.Entry.FailureMode = "Fail"
		},
		`its appProtocol is "https", and is to be http, kubernetes.io/h2c`: func(e *registry.Export) {
			e.Entry.AppProtocol = "https"
		},
		"its region has 64 characters, at most 63": func(e *registry.Export) {
			e.Entry.Region = strings.Repeat("a", 64)
		},
		"its zone has 64 characters, at most 63": func(e *registry.Export) { e.Entry.Zone = strings.Repeat("é", 64) },
		`"ns/Chat" is not the name of a pool`:    func(e *registry.Export) { e.Pool.Name = "Chat" },
		`"ns.a/chat" is not the name of a pool`:  func(e *registry.Export) { e.Pool.Namespace = "ns.a" },
	}
	maps.Copy(out, hostilePorts())
	return out
}

// hostilePorts returns, by problem, exports with an invalid port.
func hostilePorts() map[string]func(*registry.Export) {
	out := map[string]func(*registry.Export){}
	for port, why := range map[int32]string{-1: "at least 1", 0: "at least 1", 65536: "at most 65535",
		1<<31 - 1: "at most 65535"} {
		wrong := []inferenceapi.Port{{Number: port}}
		service := inferenceapi.ServiceImports{{Addresses: []string{"a"}, Ports: wrong}}
		at := &inferenceapi.EndpointImport{Port: port}
		picker := func(change func(*inferenceapi.EndpointPickerImport)) func(*registry.Export) {
			return func(e *registry.Export) {
				picker := *e.Entry.EndpointPicker
				change(&picker)
				e.Entry.EndpointPicker = &picker
			}
		}
		for what, change := range map[string]func(*registry.Export){
			"targetPorts[0].number": func(e *registry.Export) { e.Entry.TargetPorts = wrong },
			"parents[0].service[0].ports[0].number": func(e *registry.Export) {
				e.Entry.Parents = []inferenceapi.ParentImport{{Service: service}}
			},
			"endpointPicker.service[0].ports[0].number": picker(func(p *inferenceapi.EndpointPickerImport) {
				p.Service = service
			}),
			"endpointPicker.health.port": picker(func(p *inferenceapi.EndpointPickerImport) {
				p.Health = at
			}),
			"endpointPicker.metrics.port": picker(func(p *inferenceapi.EndpointPickerImport) {
				p.Metrics = at
			}),
		} {
			out[fmt.Sprintf("its %s is %d, %s", what, port, why)] = change
		}
		out[fmt.Sprintf("one of its ports is %d, and a port is 1 to 65535", port)] = func(e *registry.Export) {
			e.Entry.Endpoints = []inferenceapi.ImportedEndpoint{{Address: "a", Ports: []int32{80, port}}}
		}
	}
	return out
}

// An invalid export would make an API server reject the whole import. So the registry rejects the
// export, and keeps its previous version. Other exports are not affected.
func TestExport_WhatNoImportMayHaveIsNotTaken(t *testing.T) {
	for why, change := range hostile() {
		r := set()
		apply(t, r,
			registry.Update{Member: "west", UID: "w", Stamp: stamp(1, 1),
				Exports: []registry.Export{export(chat, stamp(1, 1), "192.0.2.7")}})
		good := []registry.Export{export(chat, stamp(1, 1), "192.0.2.1"), export(code, stamp(1, 1), "192.0.2.2")}
		apply(t, r, registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true, Exports: good})
		bad := export(chat, stamp(1, 2), "192.0.2.1")
		change(&bad)
		update := registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 2), Exports: []registry.Export{bad}}
		apply(t, r, update)
		i := slices.IndexFunc(r.ExportsOf("east"), func(e *registry.Export) bool { return e.Pool == bad.Pool })
		got := r.ExportsOf("east")[i]
		if !strings.Contains(got.Unread, why) || len(got.Unread) > 700 {
			t.Errorf("unread: got %[2]q, want %[1]s in at most 700 bytes", why, got.Unread)
		}
		for p, want := range map[objectid.Pool]string{chat: "east=192.0.2.1; west=192.0.2.7", code: "east=192.0.2.2"} {
			if got := exports(r, p); got != want {
				t.Errorf("%s: %s is %s, want %s", why, p, got, want)
			}
		}
	}
}

// Ports, weights and texts at the schema's limits are accepted.
func TestExport_LimitsOfTheSchemaAreTaken(t *testing.T) {
	r, e := set(), export(chat, stamp(1, 1), "192.0.2.1")
	most := int32(registry.MaxWeight)
	e.Entry.Weight, e.Entry.FailureMode, e.Entry.AppProtocol, e.Entry.Region = &most, "FailOpen", "kubernetes.io/h2c",
		strings.Repeat("a", 63)
	e.Entry.TargetPortNumber, e.Entry.EndpointPicker.Name = 65535, strings.Repeat("a", 253)
	apply(t, r, registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Exports: []registry.Export{e}})
	if list := r.Exports(nil, chat); len(list) != 1 || list[0].Unread != "" {
		t.Errorf("got %+v, want one export that is read", list)
	}
}
