package endpoint

import "time"

// A request may have parts at servers other than the picked server: these servers read its prompt
// or encode its images. Each part has its own lease, which ends with the response's first token or
// with the request.

// AddParts adds the leases of the request's parts to lease, which then ends them. The caller must
// not use them any more.
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

// Behind records that the gateway sends the request to the address front, which forwards it to the
// picked endpoint.
func (lease *Lease) Behind(front *Load) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.front = front
}

// Served returns the Load of the endpoint that serves the request. If at is the address that Behind
// recorded, this is the picked endpoint; otherwise it is at.
func (lease *Lease) Served(at *Load) *Load {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if at != nil && at == lease.front {
		return lease.picked
	}
	return at
}
