package report_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func TestService_AddressesByType(t *testing.T) {
	s := report.Service{
		ClusterIPs: []string{"10.96.0.9"}, ExternalIPs: []string{"192.0.2.9", "192.0.2.9"},
		LoadBalancer: []string{"192.0.2.1", "", "lb.example"},
		Nodes:        []string{"198.51.100.1", "2001:db8::1"}, // the Service has no IPv6 address
	}
	for typ, want := range map[string][]string{
		"ClusterIP":    {"10.96.0.9", "192.0.2.9"},
		"LoadBalancer": {"192.0.2.1", "lb.example", "192.0.2.9"},
		"NodePort":     {"192.0.2.9", "198.51.100.1"},
	} {
		s.Type = typ
		if got := s.Addresses(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", typ, got, want)
		}
	}
	if got := (report.Service{Type: "ClusterIP", ClusterIPs: []string{"None"}}).Addresses(); len(got) != 0 {
		t.Errorf("a headless Service: %v, want none", got)
	}
	for i := range 40 {
		s.Nodes = append(s.Nodes, fmt.Sprintf("198.51.100.%d", 10+i))
	}
	s.Type = "NodePort"
	if got := s.Addresses(); len(got) != report.MaxAddresses {
		t.Errorf("%d addresses, want %d, which fit a status", len(got), report.MaxAddresses)
	}
}

func TestAddressType_OfWhatAStatusCanHold(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": report.IPAddress, "2001:db8::1": report.IPAddress, "edge.example": report.Hostname,
		"fe80::1%eth0": "", "not an address!": "", "Edge_2": "", "": "",
	} {
		if got := report.AddressType(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
