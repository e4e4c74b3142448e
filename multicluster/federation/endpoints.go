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

// A pool with more than maxInline endpoints has them in separate parts instead of its record.
const (
	maxInline     = 64
	perPart       = 32
	maxParts      = 1024
	maxAssemblies = 10_000
	partSize      = 256 // overhead of a part, counted against Config.Share
)

// part has some endpoints of a pool. Its key is the record's key, "#" and a number.
type part struct {
	Epoch     uint64                          `json:"epoch"`
	Sequence  uint64                          `json:"sequence"`
	Endpoints []inferenceapi.ImportedEndpoint `json:"endpoints"`
}

func partKey(key string, n int) string { return key + "#" + strconv.Itoa(n) }

// partsFor returns the number of parts, a power of two; 0: the record itself has the endpoints. A
// new number sends all endpoints again, so the number before stays unless parts become almost empty
// or too large.
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

type assembly struct {
	// head is the record without endpoints. Its routing mode is empty until the record arrives.
	head  registry.Export
	count int
	parts map[int]part
	sizes map[int]int // bytes of each part; -1 is the record
}

type assemblies struct {
	pools map[objectid.Pool]*assembly
	bytes int
	share int // memory limit of the member's exports, in bytes
	lack  shortage
}

// receive stores a record or a part of endpoints. If whole is true, e is the complete export.
// Otherwise the caller calls export after all items of the update. e.Pool is empty for an invalid
// key.
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
	pool, err := a.room(e.Pool, -1, len(value))
	if err != nil {
		return e, false, err
	}
	pool.head, pool.count = e, parts
	return e, false, nil
}

// room reserves size bytes of a pool for part n; n is -1 for the record.
func (a *assemblies) room(p objectid.Pool, n, size int) (*assembly, error) {
	pool := a.pools[p]
	if pool == nil {
		if len(a.pools) >= maxAssemblies {
			a.lack.most = maxAssemblies
			return nil, fmt.Errorf("its cluster exports more than %d pools of many endpoints", maxAssemblies)
		}
		pool = &assembly{parts: map[int]part{}, sizes: map[int]int{}}
	}
	if size += partSize; a.bytes+size-pool.sizes[n] > a.share {
		a.drop(p, n) // otherwise outdated endpoints would stay in use
		a.lack.short(size)
		return nil, fmt.Errorf("the endpoints of its cluster take more than %d MiB, its share here", a.share>>20)
	}
	a.bytes += size - pool.sizes[n]
	a.pools[p], pool.sizes[n] = pool, size
	return pool, nil
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
	pool, err := a.room(p, n, len(value)+elementSize*len(in.Endpoints))
	if err == nil {
		pool.parts[n] = in
	}
	return err
}

// drop drops part n of a pool, or the whole pool if n is -1.
func (a *assemblies) drop(p objectid.Pool, n int) {
	pool := a.pools[p]
	switch {
	case pool == nil:
	case n < 0:
		for _, size := range pool.sizes {
			a.bytes -= size
		}
		delete(a.pools, p)
	default:
		a.bytes -= pool.sizes[n]
		delete(pool.parts, n)
		delete(pool.sizes, n)
	}
}

var errIncomplete = errors.New("some of its endpoints have not arrived")

func (a *assemblies) export(p objectid.Pool) (registry.Export, error) {
	pool := a.pools[p]
	if pool == nil || pool.head.Entry.RoutingMode == "" {
		a.drop(p, -1)
		return registry.Export{Pool: p}, errIncomplete
	}
	e := pool.head
	e.Entry.Endpoints = nil
	for i := range pool.count {
		part, ok := pool.parts[i]
		if !ok {
			return e, errIncomplete
		}
		at, err := stampOf(part.Epoch, part.Sequence)
		if err != nil {
			return e, err
		}
		if at.Compare(e.Stamp) > 0 {
			e.Stamp = at
		}
		e.Entry.Endpoints, e.Size = append(e.Entry.Endpoints, part.Endpoints...), e.Size+pool.sizes[i]
	}
	slices.SortFunc(e.Entry.Endpoints, func(a, b inferenceapi.ImportedEndpoint) int {
		return cmp.Compare(a.Address, b.Address)
	})
	return e, nil
}
