package gatewayapi_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// indexed is a reader that forbids reads of whole tables. A row that reads a whole table is
// recomputed after each change of the kind.
type indexed struct {
	t *testing.T
	store.Reader
}

func (r indexed) Rows(table, index, key string) store.Rows {
	if index == store.ByAll {
		r.t.Errorf("all of %s is read, want reads by index", table)
	}
	return r.Reader.Rows(table, index, key)
}

func TestGatewayAPI_ReadsNoWholeTable(t *testing.T) {
	golden(t, func(t *testing.T, _ string, archive *txtar.Archive, cfg gatewayapi.Config) {
		v := view(t, operations(t, string(archive.Files[0].Data)))
		w := decide(v, cfg)
		r := indexed{t, v}
		for _, class := range store.GatewayClasses.All(v) {
			gatewayapi.Class(r, cfg, class.Name)
		}
		for _, gw := range store.Gateways.All(v) {
			gatewayapi.Gateway(r, cfg, store.ID(gw))
			gatewayapi.NotOurs(r, cfg, store.ID(gw))
		}
		for _, key := range routeKeys(v) {
			gatewayapi.Attach(r, fakeBackends{}, gatewayapi.Candidate(r, cfg, w.gateway, key), nil)
		}
		for _, set := range store.ListenerSets.All(v) {
			gatewayapi.ListenerSetReport(r, cfg, store.ID(set), w.gateway, func(string, string) int32 { return 0 })
		}
	})
}
