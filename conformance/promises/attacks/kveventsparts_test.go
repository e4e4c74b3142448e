package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// kvPublisher is one end of a ZMTP 3.0 connection, of a model server that sends what it likes.
type kvPublisher struct{ net.Conn }

// greet sends the greeting and the handshake of a PUB socket, and drops all that the subscriber sends.
func (p kvPublisher) greet() error {
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"), "\x08Identity\x00\x00\x00\x00"...)
	_, err := p.Write(append(append(greeting, 4, byte(len(ready))), ready...))
	go func() { _, _ = io.Copy(io.Discard, p) }() // ends with the connection
	return err
}

// frame is a frame of a message; more of them follow if more is 1.
func frame(more byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{2 | more}, uint64(len(body))), body...)
}

// publish sends a batch of KV events.
func (p kvPublisher) publish(topic string, seq uint64, batch []byte) error {
	_, err := p.Write(bytes.Join([][]byte{frame(1, []byte(topic)), frame(1, binary.BigEndian.AppendUint64(nil, seq)), frame(0, batch)}, nil))
	return err
}

// stored is a batch that has the blocks of 16 tokens of a prompt stored; their hashes begin with first.
func stored(first uint64, tokens []uint32) []byte {
	b := append([]byte{0x93, 0x01, 0x91, 0x95, 0xab}, "BlockStored"...)
	b = binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(len(tokens)/16))
	for i := range len(tokens) / 16 {
		b = binary.BigEndian.AppendUint64(append(b, 0xcf), first+uint64(i))
	}
	b = binary.BigEndian.AppendUint32(append(b, 0xc0, 0xdd), uint32(len(tokens)))
	for _, id := range tokens {
		b = binary.BigEndian.AppendUint32(append(b, 0xce), id)
	}
	return append(b, 16, 0)
}

// cleared is a batch that has a server's cache empty.
func cleared() []byte {
	return append(append([]byte{0x93, 0x01, 0x91, 0x91, 0xb0}, "AllBlocksCleared"...), 0)
}

// eventAttacks are what a publisher does on one connection, until an error or the end of ctx. victim is the address of another server.
func eventAttacks(victim string) map[string]func(context.Context, kvPublisher) error {
	junk := bytes.Repeat([]byte{0xdd, 0x7f, 0xff, 0xff, 0xff, 0x91, 0xc1, 0x81}, 128<<10)
	claim := "kv@" + victim + "@m"
	// endless writes what next returns, again and again.
	endless := func(ctx context.Context, p kvPublisher, next func() []byte) (err error) {
		for err == nil && ctx.Err() == nil {
			_, err = p.Write(next())
		}
		return err
	}
	return map[string]func(context.Context, kvPublisher) error{
		"broken batches": func(_ context.Context, p kvPublisher) error {
			if err := p.greet(); err != nil {
				return err
			}
			return p.publish("kv-events", 1, junk)
		},
		"a greeting without end": func(ctx context.Context, p kvPublisher) error {
			return endless(ctx, p, func() []byte { return bytes.Repeat([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3}, 1000) })
		},
		"a greeting byte by byte": func(ctx context.Context, p kvPublisher) error {
			return endless(ctx, p, func() []byte { <-time.After(100 * time.Millisecond); return []byte{0xff} })
		},
		"commands without end": func(ctx context.Context, p kvPublisher) error {
			if err := p.greet(); err != nil {
				return err
			}
			pings := bytes.Repeat(append([]byte{4, 23}, "\x04PING\x00\x640123456789abcdef"...), 1000)
			return endless(ctx, p, func() []byte { return pings })
		},
		"a message above 16 MiB": func(_ context.Context, p kvPublisher) error {
			if err := p.greet(); err != nil {
				return err
			}
			_, err := p.Write(append(binary.BigEndian.AppendUint64([]byte{2}, 1<<40), junk...))
			return err
		},
		"frames above 16 MiB together": func(ctx context.Context, p kvPublisher) error {
			if err := p.greet(); err != nil {
				return err
			}
			return endless(ctx, p, func() []byte { return frame(1, bytes.Repeat(junk, 2)) })
		},
		"messages of 15 MiB that stop": func(ctx context.Context, p kvPublisher) error {
			if err := p.greet(); err != nil {
				return err
			}
			_, err := p.Write(append(binary.BigEndian.AppendUint64([]byte{2}, 15<<20), junk...))
			<-ctx.Done()
			return err
		},
		"a flood of blocks": func(ctx context.Context, p kvPublisher) error {
			err := p.greet()
			tokens := make([]uint32, 16_000)
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				for i := range tokens {
					tokens[i] = uint32(seq*7919 + uint64(i)*104729)
				}
				err = p.publish("kv-events", seq, stored(seq<<20, tokens))
			}
			return err
		},
		"a flood of small messages": func(ctx context.Context, p kvPublisher) error {
			err := p.greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.publish("kv-events", seq, []byte{0x92, 0x01, 0x90})
			}
			return err
		},
		"topics of 1 MiB": func(ctx context.Context, p kvPublisher) error {
			err := p.greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.publish(string(junk), seq, []byte{0x92, 0x01, 0x90})
			}
			return err
		},
		"events of another server": func(ctx context.Context, p kvPublisher) error {
			err := p.greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.publish(claim, seq, cleared())
				<-time.After(10 * time.Millisecond)
			}
			return err
		},
	}
}
