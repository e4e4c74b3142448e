package prefix

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// A snapshot of a server is its blocks, the one used last foremost: 8 bytes for each hash, and one
// for the block's size. So the part at its beginning is closed under prefixes, too.
const (
	snapshotBlock = 9
	// maxPending bounds the snapshots of servers that the Index does not have yet, in bytes, and
	// pendingFor how long they wait.
	maxPending = 16 << 20
	pendingFor = time.Minute
)

var errSnapshot = errors.New("not a snapshot of a server's prefixes")

// Snapshot calls each with a snapshot of every server that has blocks. All of them together take at
// most limit bytes. If there is more, servers get equal shares, and the blocks used last.
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

// snapshot returns that of up to n blocks.
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

// Restore makes a server have the blocks of a snapshot, which another process has made, as far as
// there is room beside those that it has. A server that the Index does not have gets them once it
// does, within a minute. Run restores.
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

// isSpan reports whether a block may have a size.
func isSpan(pieces uint8) bool {
	for _, s := range spans {
		if s.pieces == int(pieces) {
			return true
		}
	}
	return false
}

// restore restores the snapshots of the servers that there are. It reports whether others wait for
// theirs.
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

// dropPending drops the snapshots that no server has asked for.
func (x *Index) dropPending() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.pending)
	x.pendingBytes = 0
}

// restore appends the blocks that the server lacks behind those that it has, and evicts none for
// them. By which picks the other process has a block is not known, so no denial removes it.
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
