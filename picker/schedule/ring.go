package schedule

import (
	"crypto/md5"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// ring is an immutable hash ring of endpoints, as in Neutree. Endpoint E has its virtual nodes at
// the first 16 hex digits of MD5("E:0"), MD5("E:1") and so on.
type ring struct {
	nodes  int
	texts  []string
	points []point
}

type point struct {
	at       uint64
	endpoint uint32 // index into texts
}

func hash64(text []byte) uint64 {
	sum := md5.Sum(text)
	return binary.BigEndian.Uint64(sum[:8])
}

// maxPoints bounds a ring's virtual nodes. With very many endpoints, each has fewer.
const maxPoints = 1 << 20

func newRing(nodes int, list []endpoint.Endpoint, old *ring) *ring {
	nodes = min(nodes, max(1, maxPoints/len(list)))
	r := &ring{nodes: nodes, texts: make([]string, len(list))}
	at := make(map[string]uint32, len(list))
	for i := range list {
		r.texts[i] = list[i].Text
		at[list[i].Text] = uint32(i)
	}
	if old != nil && old.nodes == nodes && slices.Equal(old.texts, r.texts) {
		return old
	}
	r.points = make([]point, 0, nodes*len(list))
	known := make([]bool, len(list))
	if old != nil && old.nodes == nodes {
		for _, p := range old.points {
			if i, ok := at[old.texts[p.endpoint]]; ok {
				known[i] = true
				r.points = append(r.points, point{p.at, i})
			}
		}
	}
	var text []byte
	for i := range list {
		if known[i] {
			continue
		}
		for node := range nodes {
			text = strconv.AppendInt(append(append(text[:0], r.texts[i]...), ':'), int64(node), 10)
			r.points = append(r.points, point{hash64(text), uint32(i)})
		}
	}
	slices.SortFunc(r.points, func(a, b point) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return int(a.endpoint) - int(b.endpoint)
	})
	return r
}

func place(list []endpoint.Endpoint, at netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, at, func(e endpoint.Endpoint, at netip.AddrPort) int {
		return e.Addr.Compare(at)
	})
}

func (r *ring) successor(key uint64) int {
	i, _ := slices.BinarySearchFunc(r.points, key, func(p point, key uint64) int {
		if p.at < key {
			return -1
		}
		return 1 // of equal points, the first counts
	})
	if i == len(r.points) {
		return 0
	}
	return i
}
