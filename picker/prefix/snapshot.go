package prefix

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// A snapshot is a server's list of blocks, most recently used first. A block has 8 bytes of hash,
// and one byte of size. A block follows all earlier blocks of its chain, so a reader may stop after
// any block.
const (
	snapshotBlock = 9
	// If its server is not in the Index yet, a snapshot waits for at most pendingFor. maxPending
	// bounds all waiting snapshots, in bytes.
	maxPending = 16 << 20
	pendingFor = time.Minute
)

var errSnapshot = errors.New("not a snapshot of a server's prefixes")

// Snapshot calls each for every server that has blocks. All snapshots together take at most limit
// bytes; if this is too low, each server gets an equal share.
func (x *Index) Snapshot(limit int, each func(key netip.AddrPort, snapshot []byte)) {
	x.mu.Lock()
	servers := make([]*Server, 0, len(x.servers))
	for _, s := range x.servers {
		servers = append(servers, s)
	}
	x.mu.Unlock()
	share := limit / snapshotBlock
	if int(x.held.Load()) > share {
		share /= max(len(servers), 1)
	}
	for _, s := range servers {
		if blob := s.snapshot(share); len(blob) > 0 {
			each(s.key, blob)
		}
	}
}

func (s *Server) snapshot(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = min(n, s.blocks); n <= 0 {
		return nil
	}
	out := make([]byte, 0, n*snapshotBlock)
	for at := s.nodes[0].next; at != 0 && len(out) < cap(out); at = s.nodes[at].next {
		out = binary.LittleEndian.AppendUint64(out, s.nodes[at].hash)
		out = append(out, s.pieces[at])
	}
	return out
}

// Restore makes Run add another process's snapshot to a server. If the server is not in the Index,
// the snapshot waits for up to a minute.
func (x *Index) Restore(key netip.AddrPort, snapshot []byte) error {
	if len(snapshot)%snapshotBlock != 0 {
		return errSnapshot
	}
	for at := 0; at < len(snapshot); at += snapshotBlock {
		if binary.LittleEndian.Uint64(snapshot[at:]) == 0 || !isSpan(snapshot[at+8]) {
			return errSnapshot
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.pending[key]; x.pendingBytes+len(snapshot)-len(old) <= maxPending {
		x.pendingBytes += len(snapshot) - len(old)
		x.pending[key] = snapshot
		x.notify()
	}
	return nil
}

func isSpan(pieces uint8) bool {
	for _, s := range spans {
		if s.pieces == int(pieces) {
			return true
		}
	}
	return false
}

func (x *Index) restore() (waiting bool) {
	type found struct {
		server   *Server
		snapshot []byte
	}
	var all []found
	x.mu.Lock()
	for key, snapshot := range x.pending {
		if s := x.servers[key]; s != nil {
			all = append(all, found{s, snapshot})
			x.pendingBytes -= len(snapshot)
			delete(x.pending, key)
		}
	}
	waiting = len(x.pending) > 0
	x.mu.Unlock()
	for _, f := range all {
		f.server.restore(f.snapshot)
	}
	return waiting
}

func (x *Index) dropPending() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.pending)
	x.pendingBytes = 0
}

// restore appends the blocks that the server lacks while there is room. Forget never removes these
// blocks, because the other process's picks are unknown.
func (s *Server) restore(snapshot []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	limit := s.index.share()
	for at := 0; at < len(snapshot); at += snapshotBlock {
		hash, pieces := binary.LittleEndian.Uint64(snapshot[at:]), snapshot[at+8]
		if n := s.find(hash); n != 0 {
			s.uses[n] = alwaysUsed
			continue
		}
		if s.blocks >= limit || s.tokens+int(pieces)*pieceTokens > s.capacity {
			return
		}
		last := uint32(0)
		if s.blocks > 0 {
			last = s.nodes[0].prev
		}
		n := s.insertBehind(hash, pieces, last)
		s.uses[n] = alwaysUsed
		s.index.holders.add(hash, s.id)
	}
}
