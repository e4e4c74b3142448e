package set

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// The objects in which Kubernetes stores records have every field of a Record, except endpoints.
// Without a field, a restarted process could decide otherwise about a member whose epoch went back.
func TestRecords_ObjectsHaveEveryFieldOfARecord(t *testing.T) {
	pool := objectid.Pool{Namespace: "ns", Name: "chat"}
	member := registry.Record{
		RecordID: registry.RecordID{Cluster: "east"}, UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: 2},
		Draining: true, Bundle: []byte("PEM"), Started: time.UnixMilli(1_700_000_000_007),
	}
	export := registry.Record{
		RecordID: registry.RecordID{Cluster: "east", Pool: pool}, UID: "uid",
		Stamp:     registry.Stamp{Epoch: 1, Sequence: 2},
		Entry:     inferenceapi.ImportedCluster{Name: "east", RoutingMode: inferenceapi.ParentMode},
		Since:     1_700_000_000_000_001,
		Withdrawn: true,
	}
	for name, r := range map[string]registry.Record{"member": member, "export": export} {
		var got registry.Record
		if r.Pool == (objectid.Pool{}) {
			got = memberRecord(overJSON(t, memberStatus(r)))
		} else {
			p := v1alpha1.PoolExport{Spec: v1alpha1.PoolExportSpec{Cluster: r.Cluster, Pool: r.Pool.Name},
				Status: exportStatus(r)}
			p.Namespace = r.Pool.Namespace
			p = overJSON(t, p)
			got = exportRecord(&p)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("%s: want the same (-saved +loaded):\n%s", name, diff)
		}
	}
	m, e := reflect.ValueOf(member), reflect.ValueOf(export)
	for i := range m.NumField() {
		name := m.Type().Field(i).Name
		if name == "Reason" || name == "Message" {
			continue // conditions have these fields, and each process decides again
		}
		if m.Field(i).IsZero() && e.Field(i).IsZero() {
			t.Errorf("neither record of this test has the field %s", name)
		}
	}
}

// overJSON encodes and decodes an object, as an API server does.
func overJSON[T any](t *testing.T, in T) (out T) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRecords_DamagedLineHarmsNoOther(t *testing.T) {
	state := t.TempDir()
	records := OnDisk(state).Records()
	if got, err := records.Load(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("without a folder: %v, %v, want none", got, err)
	}
	record := func(cluster, name string) registry.Record {
		r := registry.Record{
			RecordID: registry.RecordID{Cluster: cluster}, UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: 2},
			Bundle: []byte("PEM"), Started: time.UnixMilli(7),
		}
		if name != "" {
			r.Since = 1_700_000_000_000_001
			r.Pool, r.Bundle = objectid.Pool{Namespace: "ns", Name: name}, []byte{}
			r.Started = time.Time{}
			r.Entry = inferenceapi.ImportedCluster{
				Name: cluster, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
				Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.0.0.1"}},
			}
		}
		return r
	}
	all := []registry.Record{record("east", ""), record("east", "a"), record("east", "b"), record("west", ""),
		record("west", "a")}
	if err := records.Save(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	got, err := OnDisk(state).Records().Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("want the saved records (-saved +loaded):\n%s", diff)
	}
	path := filepath.Join(state, "cluster", "records", "east.jsonl")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	lines[1] = lines[1][:len(lines[1])/2] // the line is cut, and the next line continues it
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	records = OnDisk(state).Records()
	got, err = records.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), path+" is damaged in line 2") {
		t.Errorf("got %v, want that line 2 is damaged", err)
	}
	if diff := cmp.Diff([]registry.Record{all[0], all[3], all[4]}, got); diff != "" {
		t.Errorf("want the whole records (-saved +loaded):\n%s", diff)
	}
	if err := records.Save(t.Context(), nil, []registry.RecordID{all[0].RecordID}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a member without records has a file, want none: %v", err)
	}
}

func FuzzRecords_LoadOrFail(f *testing.F) {
	f.Add(
		[]byte(`{"uid":"u","epoch":1,"sequence":2}` + "\n" +
			`{"namespace":"ns","name":"a","uid":"u","entry":{"name":"east","routingMode":"ParentMode"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "east.jsonl")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		got, _ := readRecords(statefile.Machine{}, path, "east")
		for _, r := range got {
			if r.UID == "" || (r.Pool.Name == "") != (r.Entry.Name == "" && r.Entry.RoutingMode == "") &&
				r.Pool.Name == "" {
				t.Errorf("got %+v, want a UID, and a pool if it has an entry", r)
			}
		}
	})
}
