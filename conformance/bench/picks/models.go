package picks

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

var (
	answer = response("ok")
	page   = response("vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
)

func response(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%s", len(body),
		body)
}

// Models are model servers that respond at once.
type Models struct {
	Addresses []netip.AddrPort
	listeners []net.Listener
}

// StartModels starts n model servers.
func StartModels(n int) (*Models, error) {
	m := &Models{}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			m.Close()
			return nil, err
		}
		m.listeners = append(m.listeners, l)
		m.Addresses = append(m.Addresses, netip.MustParseAddrPort(l.Addr().String()))
		go accept(l)
	}
	return m, nil
}

// Close closes the listeners. Open connections stay until clients close them.
func (m *Models) Close() {
	for _, l := range m.listeners {
		_ = l.Close()
	}
}

func accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			r := bufio.NewReaderSize(conn, 64<<10)
			for {
				first, err := readRequest(r)
				if err != nil {
					return
				}
				out := answer
				if bytes.HasPrefix(first, []byte("GET /metrics")) {
					out = page
				}
				if _, err := conn.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

func readRequest(r *bufio.Reader) (first []byte, err error) {
	first, length, err := readHead(r)
	if err != nil {
		return nil, err
	}
	_, err = r.Discard(length)
	return first, err
}

func readHead(r *bufio.Reader) (first []byte, length int, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first == nil {
			if len(line) == 0 {
				return nil, 0, errors.New("a message begins with an empty line")
			}
			first = bytes.Clone(line)
			continue
		}
		if len(line) == 0 {
			return first, length, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, 0, err
			}
		}
		if ok && bytes.EqualFold(name, []byte("transfer-encoding")) {
			return nil, 0, io.ErrUnexpectedEOF // Envoy always sends a content-length
		}
	}
}
