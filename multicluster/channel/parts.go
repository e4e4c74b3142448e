package channel

import (
	"fmt"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A response above these bounds is sent in parts, which bounds memory at both ends: each part waits
// for the acknowledgement of the one before.
const (
	partItems = 1024
	partBytes = 1 << 20
	// partOverhead is the size of an item on the wire without key and value, in bytes.
	partOverhead = 96
)

// The nonces of all parts except the last contain partMark. Other nonces are sequence numbers.
const partMark = "/"

func split(whole *response) (parts []*response) {
	part, items, bytes := (*response)(nil), 0, 0
	take := func(size int) *response {
		if part == nil || items == partItems || bytes+size > partBytes {
			part, items, bytes = &response{TypeUrl: whole.TypeUrl, SystemVersionInfo: whole.SystemVersionInfo}, 0, 0
			parts = append(parts, part)
		}
		items, bytes = items+1, bytes+size
		return part
	}
	for _, key := range whole.GetRemovedResources() {
		to := take(len(key) + partOverhead)
		to.RemovedResources = append(to.RemovedResources, key)
	}
	for _, r := range whole.GetResources() {
		to := take(sizeOf(r))
		to.Resources = append(to.Resources, r)
	}
	if len(parts) < 2 {
		return []*response{whole}
	}
	for i, p := range parts[:len(parts)-1] {
		p.Nonce = whole.Nonce + partMark + strconv.Itoa(i)
	}
	part.Nonce = whole.Nonce
	return parts
}

func sizeOf(r *discoveryv3.Resource) int {
	return len(r.GetName()) + len(r.GetVersion()) + len(r.GetResource().GetValue()) + partOverhead
}

type assembly struct {
	limits Limits
	parts  map[string]*response
	bytes  int
}

// add returns the whole response once its last part arrives, nil before. An error ends the stream.
func (a *assembly) add(r *response) (whole *response, err error) {
	whole = a.parts[r.GetTypeUrl()]
	last := !strings.Contains(r.GetNonce(), partMark)
	switch {
	case whole == nil && last:
		return r, nil
	case whole == nil:
		whole = r
	default:
		whole.Resources = append(whole.Resources, r.GetResources()...)
		whole.RemovedResources = append(whole.RemovedResources, r.GetRemovedResources()...)
	}
	if n := len(whole.GetResources()) + len(whole.GetRemovedResources()); n > a.limits.items() {
		return nil, fmt.Errorf("a response has more than %d items", a.limits.items())
	}
	if last {
		delete(a.parts, r.GetTypeUrl())
		a.bytes -= weight(whole) - weight(r)
		return whole, nil
	}
	a.parts[r.GetTypeUrl()] = whole
	if a.bytes += weight(r); a.bytes > a.limits.bytes() {
		return nil, fmt.Errorf("responses that are not complete take more than %d bytes", a.limits.bytes())
	}
	return nil, nil
}

func weight(r *response) (n int) {
	for _, key := range r.GetRemovedResources() {
		n += len(key) + partOverhead
	}
	for _, item := range r.GetResources() {
		n += sizeOf(item)
	}
	return n
}

func nameable(versions map[string]string) bool {
	size := 0
	for key, version := range versions {
		size += len(key) + len(version) + 16
	}
	return len(versions) <= maxVersions && size < maxRequest/2
}
