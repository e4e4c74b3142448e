package delivery

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

type probed map[string]bool

func (p probed) Set(name string, target probe.Picker) {
	p[name] = len(target.Addresses) == 1 && !target.Addresses[0].Cleartext
}
func (p probed) SetHealth(string, probe.Health) {}
func (p probed) Remove(name string)             { delete(p, name) }

func TestExternalPicker_ProbedWhileRoutesLeadToIt(t *testing.T) {
	p, a, b := probed{}, model.PickerCluster("ns", "a", 1), model.PickerCluster("ns", "b", 1)
	d := New(Probes{p})
	d.Deliver(t.Context(),
		&Change{
			Output: translator.Output{
				Pickers: []model.ExternalPicker{
					{Cluster: a, Addresses: []model.RemoteAddress{{Addr: netip.MustParseAddrPort("10.0.0.9:9002")}}},
					{Cluster: b},
				},
			},
		})
	d.Deliver(t.Context(), &Change{Output: translator.Output{PickersGone: []model.ClusterID{b}}})
	if want := (probed{a.String(): true}); !maps.Equal(p, want) {
		t.Errorf("probed %v, want %v", p, want)
	}
}
