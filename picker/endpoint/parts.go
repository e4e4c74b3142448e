package endpoint

import "time"

// A request may have parts at other servers, which read its prompt or encode its images. Each part
// has its own lease, until the first token or the request's end.

// AddParts adds leases of parts to a request's lease. The caller must not use the parts any longer.
func (lease *Lease) AddParts(parts ...*Lease) {
	for _, part := range parts {
		part.KeepUntilEnd()
	}
	lease.mu.Lock()
	if lease.load != nil && !lease.begun {
		lease.parts, parts = append(lease.parts, parts...), nil
	}
	lease.mu.Unlock()
	endParts(parts, 0)
}

// The caller holds lease.mu.
func (lease *Lease) takeParts() []*Lease {
	parts := lease.parts
	lease.parts = nil
	return parts
}

func endParts(parts []*Lease, after time.Duration) {
	for _, part := range parts {
		if after > 0 {
			part.Begun(after)
		}
		part.Release()
		part.Done()
	}
}

// Behind records that the address front forwards the request to the picked endpoint.
func (lease *Lease) Behind(front *Load) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.front = front
}

// Served returns the picked endpoint's Load if at forwards to it (Behind), and otherwise at.
func (lease *Lease) Served(at *Load) *Load {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if at != nil && at == lease.front {
		return lease.picked
	}
	return at
}
