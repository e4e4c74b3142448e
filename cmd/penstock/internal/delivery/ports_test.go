package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

func listenerOn(port uint16, body string) *resource.Resource {
	return resource.FromParts(resource.Listener, model.ListenerName(port), resource.NewPart([]byte(body), nil, nil))
}

// given lists the listeners that each gateway gets (+) and loses (-).
func given(deltas []translator.Delta) map[string][]string {
	out := map[string][]string{}
	for _, d := range deltas {
		for _, r := range d.Upserts {
			out[d.Gateway] = append(out[d.Gateway], "+"+r.Name)
		}
		for _, r := range d.Removes {
			out[d.Gateway] = append(out[d.Gateway], "-"+r.Name)
		}
	}
	return out
}

func expect(t *testing.T, what string, got []translator.Delta, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, given(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestGateway_KeepsItsPortAndTheNextOneWaits(t *testing.T) {
	c := NewPorts(status.NewBoard(nil))
	ref := listenerOn(80, "").Ref
	expect(t, "two at once: the first by name", c.filter([]translator.Delta{
		{Gateway: "default/a", Upserts: []*resource.Resource{listenerOn(80, "a")}},
		{Gateway: "default/b", Upserts: []*resource.Resource{listenerOn(80, "b"), listenerOn(81, "b")}},
	}), map[string][]string{"default/a": {"+listener/80"}, "default/b": {"+listener/81"}})
	if reports := c.reports(); len(reports) != 1 || reports[0].Owner.Key() != "default/b" ||
		len(reports[0].Findings) != 1 {
		t.Fatalf("reports: got %+v, want one with one finding, of default/b, which waits", reports)
	}
	expect(t, "its change while it waits",
		c.filter([]translator.Delta{{Gateway: "default/b", Upserts: []*resource.Resource{listenerOn(80, "b2")}}}),
		map[string][]string{})
	expect(t, "the port comes free", c.filter([]translator.Delta{{Gateway: "default/a", Removes: []resource.Ref{ref}}}),
		map[string][]string{"default/a": {"-listener/80"}, "default/b": {"+listener/80"}})
	if len(c.reports()) != 0 || !c.Has("listener/80", "default/b") {
		t.Error("b must have the port now, without a report")
	}
}

func TestGateway_PortsOfUDPAreOthersThanThoseOfTCP(t *testing.T) {
	c := NewPorts(status.NewBoard(nil))
	udp := func(body string) *resource.Resource {
		name := model.Socket{Port: 53, UDP: true}.Listener()
		return resource.FromParts(resource.Listener, name, resource.NewPart([]byte(body), nil, nil))
	}
	expect(t, "UDP and TCP", c.filter([]translator.Delta{
		{Gateway: "default/a", Upserts: []*resource.Resource{listenerOn(53, "a")}},
		{Gateway: "default/b", Upserts: []*resource.Resource{udp("b")}},
		{Gateway: "default/c", Upserts: []*resource.Resource{udp("c")}},
	}), map[string][]string{"default/a": {"+listener/53"}, "default/b": {"+listener/udp/53"}})
	reports := c.reports()
	if len(reports) != 1 || reports[0].Owner.Key() != "default/c" ||
		reports[0].Findings[0].Problem != "port 53/UDP is already used by Gateway default/b" {
		t.Errorf("reports: got %+v, want port 53/UDP already used, of default/c", reports)
	}
}

func TestGateway_RemovedOneFreesItsPorts(t *testing.T) {
	c := NewPorts(status.NewBoard(nil))
	c.filter([]translator.Delta{{Gateway: "default/b", Upserts: []*resource.Resource{listenerOn(80, "b")}}})
	c.filter([]translator.Delta{{Gateway: "default/a", Upserts: []*resource.Resource{listenerOn(80, "a")}}})
	if !c.Has("listener/80", "default/b") {
		t.Fatal("a newcomer took the port of one that serves")
	}
	expect(t, "b goes",
		c.filter(
			[]translator.Delta{{Gateway: "default/b", Gone: true, Removes: []resource.Ref{listenerOn(80, "").Ref}}}),
		map[string][]string{"default/a": {"+listener/80"}, "default/b": {"-listener/80"}})
}

func TestGateway_UnwantedPortIsNotGivenOut(t *testing.T) {
	c := NewPorts(status.NewBoard(nil))
	c.filter([]translator.Delta{
		{Gateway: "default/a", Upserts: []*resource.Resource{listenerOn(80, "a")}},
		{Gateway: "default/b", Upserts: []*resource.Resource{listenerOn(80, "b")}},
	})
	c.filter([]translator.Delta{{Gateway: "default/b", Removes: []resource.Ref{listenerOn(80, "").Ref}}})
	expect(t, "a goes", c.filter([]translator.Delta{{Gateway: "default/a", Gone: true}}), map[string][]string{})
}

func TestGateway_RoutesOfAnothersPortAreNotAwaited(t *testing.T) {
	c := NewPorts(status.NewBoard(nil))
	c.filter([]translator.Delta{
		{Gateway: "default/a", Upserts: []*resource.Resource{listenerOn(443, "a")}},
		{Gateway: "default/b", Upserts: []*resource.Resource{listenerOn(443, "b"), listenerOn(80, "b")}},
	})
	for name, want := range map[string]bool{
		model.RoutesName(model.ChainName(true, 443, "x.example.com")): false,
		model.RoutesName(model.ChainName(false, 80, "")):              true, "hops": true,
	} {
		if got := c.Served(resource.Ref{Type: resource.RouteConfiguration, Name: name}, "default/b"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
