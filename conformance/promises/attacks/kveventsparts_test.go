package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
)

func cleared() []byte {
	return append(append([]byte{0x93, 0x01, 0x91, 0x91, 0xb0}, "AllBlocksCleared"...), 0)
}

// eventAttacks returns attacks of a publisher on one connection. Each attack lasts until an error
// or the end of ctx. victim is another server's address.
func eventAttacks(victim string) map[string]func(context.Context, parties.KVPublisher) error {
	attacks := wireAttacks()
	maps.Copy(attacks, floods(victim))
	return attacks
}

// attackJunk is 1 MiB of endless arrays in MessagePack.
var attackJunk = bytes.Repeat([]byte{0xdd, 0x7f, 0xff, 0xff, 0xff, 0x91, 0xc1, 0x81}, 128<<10)

func wireAttacks() map[string]func(context.Context, parties.KVPublisher) error {
	endless := func(ctx context.Context, p parties.KVPublisher, next func() []byte) (err error) {
		for err == nil && ctx.Err() == nil {
			_, err = p.Write(next())
		}
		return err
	}
	return map[string]func(context.Context, parties.KVPublisher) error{
		"broken batches": func(_ context.Context, p parties.KVPublisher) error {
			if err := p.Greet(); err != nil {
				return err
			}
			return p.Publish("kv-events", 1, attackJunk)
		},
		"a greeting without end": func(ctx context.Context, p parties.KVPublisher) error {
			return endless(ctx, p, func() []byte {
				return bytes.Repeat([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3}, 1000)
			})
		},
		"a greeting byte by byte": func(ctx context.Context, p parties.KVPublisher) error {
			return endless(ctx, p, func() []byte { time.Sleep(100 * time.Millisecond); return []byte{0xff} })
		},
		"commands without end": func(ctx context.Context, p parties.KVPublisher) error {
			if err := p.Greet(); err != nil {
				return err
			}
			pings := bytes.Repeat(append([]byte{4, 23}, "\x04PING\x00\x640123456789abcdef"...), 1000)
			return endless(ctx, p, func() []byte { return pings })
		},
		"a message above 16 MiB": func(_ context.Context, p parties.KVPublisher) error {
			if err := p.Greet(); err != nil {
				return err
			}
			_, err := p.Write(append(binary.BigEndian.AppendUint64([]byte{2}, 1<<40), attackJunk...))
			return err
		},
		"frames above 16 MiB together": func(ctx context.Context, p parties.KVPublisher) error {
			if err := p.Greet(); err != nil {
				return err
			}
			return endless(ctx, p, func() []byte { return parties.Frame(1, bytes.Repeat(attackJunk, 2)) })
		},
		"messages of 15 MiB that stop": func(ctx context.Context, p parties.KVPublisher) error {
			if err := p.Greet(); err != nil {
				return err
			}
			_, err := p.Write(append(binary.BigEndian.AppendUint64([]byte{2}, 15<<20), attackJunk...))
			<-ctx.Done()
			return err
		},
	}
}

// floods returns endless valid messages: of blocks, of topics, and about another server.
func floods(victim string) map[string]func(context.Context, parties.KVPublisher) error {
	claim := "kv@" + victim + "@m"
	return map[string]func(context.Context, parties.KVPublisher) error{
		"a flood of blocks": func(ctx context.Context, p parties.KVPublisher) error {
			err := p.Greet()
			tokens := make([]uint32, 16_000)
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				for i := range tokens {
					tokens[i] = uint32(seq*7919 + uint64(i)*104729)
				}
				err = p.Publish("kv-events", seq, stored(seq<<20, tokens))
			}
			return err
		},
		"a flood of small messages": func(ctx context.Context, p parties.KVPublisher) error {
			err := p.Greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.Publish("kv-events", seq, []byte{0x92, 0x01, 0x90})
			}
			return err
		},
		"topics of 1 MiB": func(ctx context.Context, p parties.KVPublisher) error {
			err := p.Greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.Publish(string(attackJunk), seq, []byte{0x92, 0x01, 0x90})
			}
			return err
		},
		"events of another server": func(ctx context.Context, p parties.KVPublisher) error {
			err := p.Greet()
			for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
				err = p.Publish(claim, seq, cleared())
				time.Sleep(10 * time.Millisecond)
			}
			return err
		},
	}
}

// stored encodes a batch that stores a prompt in blocks of 16 tokens. The blocks' hashes are first,
// first+1 and so on.
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
