package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/kvevents"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/zmtp"
)

// What one server publishes, by vLLM's defaults: prompts of 2,048 tokens in blocks of 16, of which
// the first half is known, as an agent's is. Its cache holds 4,000 blocks, so each new block has
// another one removed.
const (
	eventBlockSize = 16
	eventBlocks    = 64 // new ones of a prompt
	eventCache     = 4000
	eventPrompts   = 4000
)

// measureKVEvents publishes events over TCP to a Subscriber in this process. The CPU time of both
// ends counts, without the making of the events.
func measureKVEvents(ctx context.Context, _ config, out report) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	messages := kvMessages()
	index := prefix.New(prefix.Config{Seed: 1})
	server := netip.MustParseAddrPort("127.0.0.1:8000")
	handle := index.Server(server)
	subscriber := kvevents.New(kvevents.Config{Prefixes: index, Retry: time.Millisecond})
	subscriber.Subscribe(
		[]kvevents.Source{{Server: server, Publisher: netip.MustParseAddrPort(listener.Addr().String())}})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = subscriber.Run(ctx) }()
	defer func() { cancel(); <-done }()
	nc, err := listener.Accept()
	if err != nil {
		return err
	}
	publisher, err := zmtp.Handshake(nc, zmtp.Pub, zmtp.Limits{})
	if err != nil {
		return err
	}
	defer publisher.Close()
	used := cpuTime()
	for seq, batch := range messages {
		if err := publisher.Write(nil, binary.BigEndian.AppendUint64(nil, uint64(seq)), batch); err != nil {
			return err
		}
	}
	// The last prompt is reported once all is read.
	var prompt prefix.Tokens
	for _, id := range kvPrompt(eventPrompts - 1) {
		prompt.Add(id)
	}
	exact, cached, servers := prompt.Exact(), []int32{0}, []*prefix.Server{handle}
	for deadline := time.Now().Add(time.Minute); cached[0] < 2048; time.Sleep(time.Millisecond) {
		if index.MatchReports(&exact, "", servers, cached); time.Now().After(deadline) {
			return errors.New("the last event has not arrived within a minute")
		}
	}
	out("kv_event", "", float64((cpuTime()-used).Microseconds())/(eventPrompts*eventBlocks))
	return nil
}

// kvPrompt are the tokens of a prompt. Every eight prompts have the first half in common.
func kvPrompt(n int) []uint32 {
	tokens := make([]uint32, 2*eventBlocks*eventBlockSize)
	for i := range tokens {
		if tokens[i] = uint32(i*7919+n*104729) % 128_000; i < len(tokens)/2 {
			tokens[i] = uint32(i*7919+n/8*15485863) % 128_000
		}
	}
	return tokens
}

// kvMessages are the batches of all prompts.
func kvMessages() (all [][]byte) {
	hash := func(n, block int) uint64 { // the engine's
		if block < eventBlocks {
			return uint64(n/8)<<32 | uint64(block) | 1<<63
		}
		return uint64(n)<<32 | uint64(block)
	}
	var live []uint64 // in the order of eviction
	for n := range eventPrompts {
		first := eventBlocks
		if n%8 == 0 {
			first = 0
		}
		hashes := make([]uint64, 0, 2*eventBlocks)
		for b := first; b < 2*eventBlocks; b++ {
			hashes = append(hashes, hash(n, b))
		}
		live = append(live, hashes...)
		events := [][]byte{nil}
		if over := len(live) - eventCache; over > 0 {
			events = append(events, packed("BlockRemoved", live[:over]))
			live = live[over:]
		}
		stored := packed("BlockStored", hashes)
		stored[0] = 0x95 // with three fields more
		if first == 0 {
			stored = append(stored, 0xc0)
		} else {
			stored = appendNumber(stored, hash(n, first-1))
		}
		tokens := kvPrompt(n)[first*eventBlockSize:]
		stored = binary.BigEndian.AppendUint32(append(stored, 0xdd), uint32(len(tokens)))
		for _, id := range tokens {
			stored = appendNumber(stored, uint64(id))
		}
		events[0] = append(stored, eventBlockSize)
		batch := append([]byte{0x93, 0xcb}, binary.BigEndian.AppendUint64(nil, math.Float64bits(1))...)
		batch = append(batch, 0x90|byte(len(events)))
		for _, e := range events {
			batch = append(batch, e...)
		}
		all = append(all, append(batch, 0))
	}
	return all
}

// packed is the beginning of an event: its tag and its hashes.
func packed(tag string, hashes []uint64) []byte {
	b := append([]byte{0x92, 0xa0 | byte(len(tag))}, tag...)
	b = binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(len(hashes)))
	for _, h := range hashes {
		b = appendNumber(b, h)
	}
	return b
}

func appendNumber(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}
