package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/prefix"
)

const (
	picksTTL = time.Second
	// maxBatch bounds the picks of a batch, and maxPublished all published picks, in bytes. A rate
	// of 12 MiB a second reaches maxPublished.
	maxBatch, maxPublished = 256 << 10, 4 << 20
	// maxSnapshot bounds the prefixes that a starting process receives, in bytes.
	maxSnapshot = 8 << 20
)

// Caches infers the contents of model servers' caches from picks. *picker.Picker implements it.
type Caches interface {
	Learn(picker.Sent)
	Snapshot(limit int, each func(server netip.AddrPort, snapshot []byte))
	Restore(server netip.AddrPort, snapshot []byte) error
}

// Picks publishes the prompts and adapters that were sent to servers, for the pickers of peers.
type Picks struct {
	*batches
	caches func() Caches
	missed atomic.Uint64

	mu      sync.Mutex
	waiting []byte
}

// NewPicks makes a Picks. caches is called once the channel runs.
func NewPicks(c *channel.Channel, caches func() Caches) *Picks {
	p := &Picks{caches: caches}
	p.batches = newBatches(c.Topic("picks"), batchLimits{batchDelay, picksTTL, maxPublished}, p.take)
	p.topic.Subscribe(eachItem(func(it channel.Item) error {
		if err := p.receive(it); err != nil {
			return fmt.Errorf("%s: %w", it.Key, err)
		}
		return nil
	}))
	p.topic.Snapshot(func() (items []channel.Item) {
		caches().Snapshot(maxSnapshot, func(server netip.AddrPort, snapshot []byte) {
			items = append(items, channel.Item{Key: server.String(), Value: snapshot})
		})
		return items
	})
	return p
}

type pickItem struct {
	batch  bool
	server netip.AddrPort
}

func parsePickItem(key string) (out pickItem, err error) {
	digit := func(c rune) bool { return '0' <= c && c <= '9' }
	if out.batch = key != "" && strings.TrimFunc(key, digit) == ""; !out.batch {
		out.server, err = netip.ParseAddrPort(key)
	}
	return out, err
}

func (p *Picks) receive(it channel.Item) error {
	item, err := parsePickItem(it.Key)
	switch {
	case err != nil:
		return fmt.Errorf("neither the number of a batch nor the address of a server: %w", err)
	case !item.batch:
		return p.caches().Restore(item.server, it.Value)
	}
	var memory [prefix.MaxBlocks]uint64
	for rest := it.Value; len(rest) > 0; {
		var s picker.Sent
		var ok bool
		if s, rest, ok = decodeSent(rest, &memory); !ok {
			return errors.New("not a batch of picks")
		}
		p.caches().Learn(s)
	}
	return nil
}

// Add publishes a pick in the next batch.
func (p *Picks) Add(s picker.Sent) {
	if !p.topic.Subscribed() {
		return
	}
	p.mu.Lock()
	first := len(p.waiting) == 0
	full := len(p.waiting)+sizeOfSent(s) > maxBatch
	if !full {
		p.waiting = appendSent(p.waiting, s)
	}
	p.mu.Unlock()
	if full {
		p.missed.Add(1)
	}
	if first {
		poke(p.wake)
	}
}

// Missed returns how many picks did not fit into their batch.
func (p *Picks) Missed() uint64 { return p.missed.Load() }

func (p *Picks) take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	value := p.waiting
	p.waiting = make([]byte, 0, len(value))
	return value
}

// A pick has, in this order: length of address, address, port, adapter hash, adapter slots, number
// of blocks, blocks, length and name of pool, length and name of sender. sentBytes is its size
// without blocks and names.
const sentBytes = 1 + 16 + 2 + 8 + 1 + 2 + 2 + 1

// deniedSlots replaces the adapter slots in a denied pick, which has no adapter.
const deniedSlots = 255

const maxPoolName, maxSenderName = 1 << 10, 255

func sizeOfSent(s picker.Sent) int {
	return sentBytes + 8*len(s.Chain) + s.Pool.Len() + len(s.Sender)
}

func appendSent(out []byte, s picker.Sent) []byte {
	if s.Pool.Len() > maxPoolName || len(s.Sender) > maxSenderName {
		s.Pool, s.Sender = objectid.Target{}, ""
	}
	addr := s.Server.Addr().AsSlice()
	out = append(append(out, byte(len(addr))), addr...)
	out = binary.LittleEndian.AppendUint16(out, s.Server.Port())
	slots := min(max(s.Slots, 0), 255)
	switch {
	case s.Denied:
		s.Adapter, slots = 0, deniedSlots
	case s.Adapter == 0:
		slots = 0
	}
	out = binary.LittleEndian.AppendUint64(out, s.Adapter)
	out = append(out, byte(slots))
	out = binary.LittleEndian.AppendUint16(out, uint16(len(s.Chain)))
	for _, block := range s.Chain {
		out = binary.LittleEndian.AppendUint64(out, block)
	}
	at := len(out)
	out, _ = s.Pool.AppendText(append(out, 0, 0)) // never fails
	binary.LittleEndian.PutUint16(out[at:], uint16(len(out)-at-2))
	return append(append(out, byte(len(s.Sender))), s.Sender...)
}

func decodeSent(in []byte, memory *[prefix.MaxBlocks]uint64) (s picker.Sent, rest []byte, ok bool) {
	size := int(in[0])
	if size != 4 && size != 16 || len(in) < sentBytes-16+size {
		return s, nil, false
	}
	addr, _ := netip.AddrFromSlice(in[1 : 1+size])
	in = in[1+size:]
	s.Server = netip.AddrPortFrom(addr, binary.LittleEndian.Uint16(in))
	s.Adapter, s.Slots = binary.LittleEndian.Uint64(in[2:]), int(in[10])
	if s.Adapter == 0 {
		s.Denied, s.Slots = s.Slots == deniedSlots, 0
	}
	blocks := int(binary.LittleEndian.Uint16(in[11:]))
	in = in[13:]
	if blocks > len(memory) || len(in) < 8*blocks {
		return s, nil, false
	}
	s.Chain = memory[:blocks]
	for i := range s.Chain {
		if s.Chain[i] = binary.LittleEndian.Uint64(in[8*i:]); s.Chain[i] == 0 {
			return s, nil, false
		}
	}
	in = in[8*blocks:]
	if len(in) < 2 {
		return s, nil, false
	}
	pool := int(binary.LittleEndian.Uint16(in))
	if in = in[2:]; pool > maxPoolName || len(in) < pool+1 {
		return s, nil, false
	}
	if err := s.Pool.UnmarshalText(in[:pool]); err != nil {
		return s, nil, false
	}
	in = in[pool:]
	sender := int(in[0])
	if in = in[1:]; len(in) < sender {
		return s, nil, false
	}
	s.Sender = string(in[:sender])
	return s, in[sender:], true
}
