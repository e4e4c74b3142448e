package set

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// A process in a new pod has no stored endpoints. Settle waits until it has the endpoints of all
// reachable members.
func TestSet_NewPodServesImportsWithTheirEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := func(addresses ...string) inferenceapi.ImportedCluster {
			e := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000}
			for _, a := range addresses {
				e.Endpoints = append(e.Endpoints, inferenceapi.ImportedEndpoint{Address: a})
			}
			return e
		}
		start := func(restored inferenceapi.ImportedCluster) (s *Set, settled chan struct{}) {
			s = New(Config{Store: store.New(), Board: &countingBoard{}, Log: slog.New(slog.DiscardHandler)})
			s.adopted.spec = &v1alpha1.ClusterSet{}
			s.link.federation = federation.New(federation.Config{
				Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
			})
			s.registry.SetMembers([]string{"east", "west"})
			s.registry.Restore([]registry.Record{
				{RecordID: registry.RecordID{Cluster: "east"}, UID: "uid",
					Stamp: registry.Stamp{Epoch: 1, Sequence: 1}},
				{RecordID: registry.RecordID{Cluster: "east", Pool: objectid.Pool{Namespace: "default", Name: "chat"}},
					UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: 1}, Entry: restored},
			})
			settled = make(chan struct{})
			go func() { s.Settle(t.Context()); close(settled) }()
			synctest.Wait()
			return s, settled
		}
		done := func(settled chan struct{}) bool {
			synctest.Wait()
			select {
			case <-settled:
				return true
			default:
				return false
			}
		}
		s, settled := start(entry())
		if done(settled) {
			t.Error("a process serves an import without its endpoints")
		}
		s.apply(registry.Update{Member: "west", UID: "other", Stamp: registry.Stamp{Epoch: 1, Sequence: 1},
			Snapshot: true})
		if done(settled) {
			t.Error("a process serves an import without its endpoints, after the update of another member")
		}
		s.apply(registry.Update{Member: "east", UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: 1},
			Snapshot: true, Exports: []registry.Export{
				{Pool: objectid.Pool{Namespace: "default", Name: "chat"}, Stamp: registry.Stamp{Epoch: 1, Sequence: 1},
					Entry: entry("10.0.0.1")},
			}})
		if !done(settled) {
			t.Error("a process with all endpoints does not serve")
		}
		began := time.Now()
		if _, settled = start(entry()); done(settled) {
			t.Error("a process serves an import without its endpoints")
		}
		if <-settled; time.Since(began) != settleTimeout { // in virtual time
			t.Errorf("a process waits for %s for a member that is away, want %s", time.Since(began), settleTimeout)
		}
		if _, settled = start(entry("10.0.0.1")); !done(settled) {
			t.Error("a process that has the endpoints waits for a member")
		}
	})
}
