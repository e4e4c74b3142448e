package federation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	// maxRecord bounds a record, in bytes: 1,024 endpoints are about 80 KB.
	maxRecord = 256 << 10
	// maxExports bounds what is kept of a member, whatever its ClusterSet allows.
	maxExports = 10_000
)

// record is the wire form of an export.
type record struct {
	Epoch    uint64                       `json:"epoch"`
	Sequence uint64                       `json:"sequence"`
	Entry    inferenceapi.ImportedCluster `json:"entry"`

	to []string // export.Export.To; no member receives it
}

// cluster is the wire form of a cluster's state.
type cluster struct {
	UID      string `json:"uid"`
	Epoch    uint64 `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	Draining bool   `json:"draining,omitempty"`
}

// maxUID bounds a cluster's UID, in bytes.
const maxUID = 128

func decodeCluster(value []byte) (c cluster, err error) {
	if len(value) > 4096 {
		return c, fmt.Errorf("it has %d bytes", len(value))
	}
	if err = json.Unmarshal(value, &c); err != nil {
		return c, err
	}
	if c.UID == "" || len(c.UID) > maxUID {
		return c, errors.New("its UID is empty or too long")
	}
	return c, nil
}

func poolKey(p registry.Pool) string { return p.Namespace + "/" + p.Name }

func parsePool(key string) (registry.Pool, error) {
	namespace, name, _ := strings.Cut(key, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return registry.Pool{}, fmt.Errorf("%.100q is not the name of a pool", key)
	}
	return registry.Pool{Namespace: namespace, Name: name}, nil
}

// decodeRecord reads an export. A name that no object can have, and an entry that is no import's, are errors.
func decodeRecord(key string, value []byte) (e registry.Export, err error) {
	if e.Pool, err = parsePool(key); err != nil {
		return e, err
	}
	if len(value) > maxRecord {
		return e, fmt.Errorf("it has %d bytes, more than %d", len(value), maxRecord)
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return e, err
	}
	switch r.Entry.RoutingMode {
	case inferenceapi.EndpointMode, inferenceapi.ParentMode:
	default:
		return e, fmt.Errorf("its routing mode is %.40q", r.Entry.RoutingMode)
	}
	e.Stamp, e.Entry = registry.Stamp{Epoch: r.Epoch, Sequence: r.Sequence}, r.Entry
	return e, nil
}
