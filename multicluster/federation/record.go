package federation

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// maxRecord bounds an encoded record, in bytes.
const maxRecord = 96 << 10

type record struct {
	Epoch    uint64                       `json:"epoch"`
	Sequence uint64                       `json:"sequence"`
	Entry    inferenceapi.ImportedCluster `json:"entry"`
	// Incarnation is export.Export.Incarnation. A member returns it in its report on the export.
	Incarnation uint64 `json:"incarnation,omitempty"`
	// Parts is the number of parts with the endpoints; 0: Entry has the endpoints.
	Parts int `json:"parts,omitempty"`

	parts []part
	to    []string
}

type cluster struct {
	UID      string `json:"uid"`
	Epoch    uint64 `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	// Started is when the process with this epoch began to publish, in milliseconds since 1970; 0:
	// unknown. Importers accept a lower epoch if Started is later.
	Started  int64 `json:"started,omitempty"`
	Draining bool  `json:"draining,omitempty"`
	// Bundle has the CA certificates of past and future signers, in PEM.
	Bundle string `json:"bundle,omitempty"`
}

const (
	// Bounds of a cluster's UID, bundle and state, in bytes.
	maxUID    = 128
	maxBundle = 16 << 10
	maxState  = maxBundle + 8<<10
)

// decodeCluster checks CA certificates only if they differ from the previous bundle.
func decodeCluster(value []byte, bundle string) (c cluster, err error) {
	if len(value) > maxState {
		return c, fmt.Errorf("it has %d bytes", len(value))
	}
	if err = decoding.Unmarshal(value, &c); err != nil {
		return c, err
	}
	if c.UID == "" || len(c.UID) > maxUID {
		return c, errors.New("its UID is empty or too long")
	}
	if _, err := stampOf(c.Epoch, c.Sequence); err != nil {
		return c, err
	}
	if c.Bundle != bundle && c.Bundle != "" &&
		(len(c.Bundle) > maxBundle || !x509.NewCertPool().AppendCertsFromPEM([]byte(c.Bundle))) {
		return c, errors.New("its bundle is too long, or has no certificate")
	}
	return c, nil
}

// stampOf rejects a stamp above MaxStamp, because no later stamp could replace it.
func stampOf(epoch, sequence uint64) (registry.Stamp, error) {
	if epoch > registry.MaxStamp || sequence > registry.MaxStamp {
		return registry.Stamp{},
			fmt.Errorf("its stamp is %d.%d; each part is at most %d", epoch, sequence, uint64(registry.MaxStamp))
	}
	return registry.Stamp{Epoch: epoch, Sequence: sequence}, nil
}

type keyKind uint8

const (
	stateKind keyKind = iota
	recordKind
	partKind // key "NAMESPACE/NAME#N": part N of the endpoints
)

type exportKey struct {
	kind keyKind
	pool objectid.Pool
	part int
}

// keyError formats its text on demand: a hostile member may send thousands of invalid keys.
type keyError struct{ key, want string }

func (e keyError) Error() string { return fmt.Sprintf("%.300q is not the name of %s", e.key, e.want) }

func parseKey(key string) (out exportKey, err error) {
	if key == stateKey {
		return out, nil
	}
	name, number, part := strings.Cut(key, "#")
	if out.kind = recordKind; part {
		out.kind = partKind
		if out.part, err = strconv.Atoi(number); err != nil || out.part >= maxParts ||
			strconv.FormatUint(uint64(out.part), 10) != number {
			return out, keyError{key, "a part"}
		}
	}
	var ok bool
	if out.pool, ok = objectid.ParsePool(name); !ok {
		return out, keyError{key, "a pool"}
	}
	return out, nil
}

// receivedKey is parseKey for a peer's key: it also rejects names that Kubernetes rejects.
func receivedKey(key string) (exportKey, error) {
	out, err := parseKey(key)
	if err == nil && out.kind != stateKind && !out.pool.IsValid() {
		err = keyError{key, "a pool"}
	}
	return out, err
}

func memberPool(key string) (objectid.Pool, error) {
	m, ok := objectid.ParseMember(key)
	if !ok || !m.Pool.IsValid() {
		return objectid.Pool{}, keyError{key, "a pool of a member"}
	}
	return m.Pool, nil
}

// decodeRecord decodes a record. parts is record.Parts.
func decodeRecord(pool objectid.Pool, value []byte) (e registry.Export, parts int, err error) {
	if e.Pool = pool; len(value) > maxRecord {
		return e, 0, fmt.Errorf("it has %d bytes, more than %d", len(value), maxRecord)
	}
	var r record
	if err := decoding.Unmarshal(value, &r); err != nil {
		return e, 0, err
	}
	if r.Parts < 0 || r.Parts > maxParts {
		return e, 0, fmt.Errorf("its endpoints have %d parts, more than %d", r.Parts, maxParts)
	}
	switch r.Entry.RoutingMode {
	case inferenceapi.EndpointMode, inferenceapi.ParentMode:
	default:
		return e, 0, fmt.Errorf("its routing mode is %.40q", r.Entry.RoutingMode)
	}
	elements, err := checkLists(&r.Entry)
	if err != nil {
		return e, 0, err
	}
	if e.Stamp, err = stampOf(r.Epoch, r.Sequence); err != nil {
		return e, 0, err
	}
	e.Size, e.Entry, e.Incarnation = len(value)+elements*elementSize, r.Entry, r.Incarnation
	return e, r.Parts, nil
}

// Bounds of the lists in an ImportedCluster, as in its schema: an empty object takes one byte on
// the wire, but a hundred bytes once it is decoded.
const (
	maxEndpoints = 4096
	maxParents   = 16
	maxServices  = 16
	maxAddresses = 64
	maxPorts     = 16
	maxRanges    = 64
)

func checkLists(e *inferenceapi.ImportedCluster) (elements int, err error) {
	if e.Conditions = nil; len(e.Parents) > maxParents || len(e.TargetPorts) > maxPorts || len(e.PodCIDRs) > maxRanges {
		return 0, errors.New("it has too many parents, ports or ranges")
	}
	elements = len(e.Parents) + len(e.TargetPorts) + len(e.PodCIDRs) + len(e.Endpoints)
	services := inferenceapi.ServiceImports{}
	if e.EndpointPicker != nil {
		services = append(services, e.EndpointPicker.Service...)
	}
	for i := range e.Parents {
		e.Parents[i].Conditions = nil
		if services = append(services, e.Parents[i].Service...); len(services) > maxParents*maxServices {
			return 0, errors.New("its gateways have too many services")
		}
	}
	for _, s := range services {
		if len(s.Addresses) > maxAddresses || len(s.Ports) > maxPorts {
			return 0, errors.New("a service of it has too many addresses or ports")
		}
		elements += 1 + len(s.Addresses) + len(s.Ports)
	}
	return elements, checkEndpoints(e.Endpoints)
}

func checkEndpoints(list []inferenceapi.ImportedEndpoint) error {
	if len(list) > maxEndpoints {
		return fmt.Errorf("it has %d endpoints, more than %d", len(list), maxEndpoints)
	}
	for _, e := range list {
		if e.Address == "" || len(e.Ports) > maxPorts {
			return errors.New("an endpoint of it has no address, or too many ports")
		}
	}
	return nil
}
