package federation

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// A pool with more than maxInline endpoints has them in parts, each an item of its own with about
// perPart of them: a change of one endpoint sends its part again and not the record. A pool has
// maxParts of them at most.
const (
	maxInline = 64
	perPart   = 32
	maxParts  = 1024
	// maxAssemblies bounds the pools of a member whose endpoints come in parts. What they take here
	// is bounded by the member's share (Config.Share), where a part takes partSize bytes beside its
	// own.
	maxAssemblies = 10_000
	partSize      = 256
)

// part is the wire form of some of the endpoints of a pool. Its key is that of the record, "#" and
// its number.
type part struct {
	Epoch     uint64                          `json:"epoch"`
	Sequence  uint64                          `json:"sequence"`
	Endpoints []inferenceapi.ImportedEndpoint `json:"endpoints"`
}

func partKey(key string, n int) string { return key + "#" + strconv.Itoa(n) }

// partsFor is how many parts n endpoints have, a power of two; 0: they are in the record. It stays
// as it was before while parts are neither empty nor large, because another number sends all again.
func partsFor(n, before int) int {
	if before > 0 && n > maxInline/2 && n > before*perPart/4 && n <= before*perPart*2 || before == 0 && n <= maxInline {
		return before
	}
	if n <= maxInline {
		return 0
	}
	parts := 1
	for parts*perPart < n && parts < maxParts {
		parts *= 2
	}
	return parts
}

// split divides endpoints among parts, by their addresses.
func split(list []inferenceapi.ImportedEndpoint, parts int) []part {
	out := make([]part, parts)
	for _, e := range list {
		h := fnv.New32a()
		_, _ = h.Write([]byte(e.Address))
		i := int(h.Sum32() % uint32(parts))
		out[i].Endpoints = append(out[i].Endpoints, e)
	}
	return out
}

// assembly is a pool of a member whose endpoints come in parts.
type assembly struct {
	head  registry.Export // "": without a routing mode, it has not arrived
	count int             // of parts
	parts map[int]part
	sizes map[int]int // with that of the head, as part -1
}

// assemblies are the pools of a member whose endpoints come in parts.
type assemblies struct {
	of    map[objectid.Pool]*assembly
	bytes int
	share int // in bytes
	lack  shortage
}

// receive takes an item over: a record, or a part. whole: e is the export; else export makes it of
// what has arrived. Without a pool, the key is none.
func (a *assemblies) receive(key string, value []byte) (e registry.Export, whole bool, err error) {
	at, err := receivedKey(key)
	if err != nil {
		return e, false, err
	}
	if at.kind == partKind {
		e.Pool = at.pool
		return e, false, a.put(at.pool, at.part, value)
	}
	e, parts, err := decodeRecord(at.pool, value)
	if err != nil || parts == 0 {
		if err == nil {
			a.drop(e.Pool, -1)
		}
		return e, err == nil, err
	}
	of, err := a.room(e.Pool, -1, len(value))
	if err != nil {
		return e, false, err
	}
	of.head, of.count = e, parts
	return e, false, nil
}

// room is that for so many bytes of a part, or of the head with -1.
func (a *assemblies) room(p objectid.Pool, n, size int) (*assembly, error) {
	of := a.of[p]
	if of == nil {
		if len(a.of) >= maxAssemblies {
			a.lack.crowded(maxAssemblies)
			return nil, fmt.Errorf("its cluster exports more than %d pools of many endpoints", maxAssemblies)
		}
		of = &assembly{parts: map[int]part{}, sizes: map[int]int{}}
	}
	if size += partSize; a.bytes+size-of.sizes[n] > a.share {
		a.drop(p, n) // else the endpoints before would count as current
		a.lack.short(size)
		return nil, fmt.Errorf("the endpoints of its cluster take more than %d MiB, its share here", a.share>>20)
	}
	a.bytes += size - of.sizes[n]
	a.of[p], of.sizes[n] = of, size
	return of, nil
}

func (a *assemblies) put(p objectid.Pool, n int, value []byte) error {
	if len(value) > maxRecord {
		return fmt.Errorf("a part of its endpoints has %d bytes, more than %d", len(value), maxRecord)
	}
	var in part
	if err := decoding.Unmarshal(value, &in); err != nil {
		return fmt.Errorf("a part of its endpoints: %w", err)
	}
	if err := checkEndpoints(in.Endpoints); err != nil {
		return err
	}
	of, err := a.room(p, n, len(value)+elementSize*len(in.Endpoints))
	if err == nil {
		of.parts[n] = in
	}
	return err
}

// drop removes a part, or with -1 all of a pool.
func (a *assemblies) drop(p objectid.Pool, n int) {
	of := a.of[p]
	if of == nil {
		return
	}
	for i, size := range of.sizes {
		if n < 0 || i == n {
			a.bytes -= size
			delete(of.parts, i)
			delete(of.sizes, i)
		}
	}
	if n < 0 {
		delete(a.of, p)
	}
}

// errIncomplete is a record some of whose parts are missing.
var errIncomplete = errors.New("some of its endpoints have not arrived")

// export is the pool with the endpoints of all parts.
func (a *assemblies) export(p objectid.Pool) (registry.Export, error) {
	of := a.of[p]
	if of == nil || of.head.Entry.RoutingMode == "" {
		a.drop(p, -1) // parts alone are of no use
		return registry.Export{Pool: p}, errIncomplete
	}
	e := of.head
	e.Entry.Endpoints = nil
	for i := range of.count {
		is, ok := of.parts[i]
		if !ok {
			return e, errIncomplete
		}
		at, err := stampOf(is.Epoch, is.Sequence)
		if err != nil {
			return e, err
		}
		if at.Compare(e.Stamp) > 0 {
			e.Stamp = at
		}
		e.Entry.Endpoints, e.Size = append(e.Entry.Endpoints, is.Endpoints...), e.Size+of.sizes[i]
	}
	slices.SortFunc(e.Entry.Endpoints, func(a, b inferenceapi.ImportedEndpoint) int {
		return cmp.Compare(a.Address, b.Address)
	})
	return e, nil
}
