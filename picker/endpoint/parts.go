package endpoint

import "time"

// A request may have parts at other servers: one reads its prompt, others encode its images. Each
// part is a lease of its own, which ends with the first token of the request, and with its end.

// AddParts makes leases parts of the request of lease, which ends them. The caller's use of them
// ends.
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

// takeParts returns the parts, which the caller ends. lease.mu is held.
func (lease *Lease) takeParts() []*Lease {
	parts := lease.parts
	lease.parts = nil
	return parts
}

// endParts ends parts. after is when the server sent the first token, counted from when it got the
// request; 0 if that is unknown.
func endParts(parts []*Lease, after time.Duration) {
	for _, part := range parts {
		if after > 0 {
			part.Begun(after)
		}
		part.Release()
		part.Done()
	}
}

// Behind states that the request is sent to an address that passes it on to the one picked.
func (lease *Lease) Behind(front *Load) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.front = front
}

// Served returns the counters of the server behind an address that has answered the request.
func (lease *Lease) Served(at *Load) *Load {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if at != nil && at == lease.front {
		return lease.picked
	}
	return at
}
