package channel

import (
	"fmt"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A response with more than partItems items, or more than partBytes bytes, is sent as several
// messages, each after the acknowledgement of the one before. So neither end holds more of it than
// it has agreed to. The subscriber takes the parts into effect together: a snapshot stays all that
// the peer publishes, and a record and its parts leave together.
const (
	partItems = 1024
	partBytes = 1 << 20
	// partOverhead is the size of an item on the wire beside its key and value, in bytes.
	partOverhead = 96
)

// Nonces of parts end with partMark; the last part of a response has the sequence alone.
const partMark = "/"

// split divides a response into the messages that are sent.
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

// assembly joins the parts of a peer's responses. It belongs to one connection.
type assembly struct {
	limits Limits
	parts  map[string]*response // by topic
	bytes  int                  // of all parts that wait
}

// add takes a message, and returns the response once it is complete. A peer that exceeds its limits
// is an error, which ends its connection: what it has published before stays.
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

// weight is how much a message takes, in bytes.
func weight(r *response) (n int) {
	for _, key := range r.GetRemovedResources() {
		n += len(key) + partOverhead
	}
	for _, item := range r.GetResources() {
		n += sizeOf(item)
	}
	return n
}

// nameable reports whether a request has room for the versions that a subscriber has.
func nameable(versions map[string]string) bool {
	size := 0
	for key, version := range versions {
		size += len(key) + len(version) + 16
	}
	return len(versions) <= maxVersions && size < maxRequest/2
}
