package picker

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// With --router-mode direct, each Dynamo worker has its own frontend. The frontend reads the
// numbers of a request's workers from headers. A worker's number is a hash of its pod's name.

const (
	modeAggregated    = "aggregated"
	modeDisaggregated = "disaggregated"
)

func (pool *pool) dynamoHeaders(p *endpointpicker.Dynamo, to, prefill *endpoint.Endpoint) (out []extproc.Header) {
	set := func(name, value string) {
		for _, n := range p.Headers(name) {
			out = append(out, extproc.Header{Name: n, Value: value})
		}
	}
	worker := func(e *endpoint.Endpoint, id, rank string) bool {
		number, ok := dynamoID(&e.Spec)
		if !ok {
			return false
		}
		set(id, strconv.FormatUint(number, 10))
		if r, several := pool.rank(e, number); several {
			set(rank, strconv.Itoa(r))
		}
		return true
	}
	if !worker(to, endpointpicker.HeaderWorkerID, endpointpicker.HeaderRank) {
		return nil
	}
	mode := modeAggregated
	if prefill != nil && worker(prefill, endpointpicker.HeaderPrefillID, endpointpicker.HeaderPrefillRank) {
		mode = modeDisaggregated
	}
	return append(out, extproc.Header{Name: endpointpicker.HeaderRoutingMode, Value: mode})
}

// rank returns an endpoint's index among the servers of its pod, ordered by port. These servers
// share the IP address and the worker number. several is false if the pod has one server.
func (pool *pool) rank(e *endpoint.Endpoint, number uint64) (rank int, several bool) {
	list, ip := pool.snapshot.Endpoints, e.Addr.Addr()
	at, _ := slices.BinarySearchFunc(list, netip.AddrPortFrom(ip, 0),
		func(e endpoint.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	ports := 0
	for ; at < len(list) && list[at].Addr.Addr() == ip; at++ {
		if other, _ := dynamoID(&list[at].Spec); other != number {
			continue
		}
		if list[at].Addr == e.Addr {
			rank = ports
		}
		ports++
	}
	return rank, ports > 1
}

func dynamoID(s *endpoint.Spec) (uint64, bool) {
	if text, ok := s.Labels[endpointpicker.DynamoIDLabel]; ok {
		number, err := strconv.ParseUint(text, 10, 64)
		return number, err == nil
	}
	if s.Pod == "" || strings.Contains(s.Pod, "/") {
		return 0, false
	}
	return podID(s.Pod), true
}

// podID returns Dynamo's number for a pod's worker: SipHash-1-3 with a zero key over the name and a
// byte 0xff (Rust's DefaultHasher), reduced to the bits of an exact JSON number.
func podID(name string) uint64 {
	const kept = 1<<53 - 1
	data := append([]byte(name), 0xff)
	v := [4]uint64{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		compress(&v, binary.LittleEndian.Uint64(data))
	}
	for i, b := range data {
		last |= uint64(b) << (8 * i)
	}
	compress(&v, last)
	v[2] ^= 0xff
	for range 3 {
		sipRound(&v)
	}
	return (v[0] ^ v[1] ^ v[2] ^ v[3]) & kept
}

func compress(v *[4]uint64, m uint64) {
	v[3] ^= m
	sipRound(v)
	v[0] ^= m
}

func sipRound(v *[4]uint64) {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
