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
	"sync/atomic"
)

const page = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"

var answer = response("text/plain", "ok")

func response(kind, body string) []byte {
	return []byte("HTTP/1.1 200 OK\r\ncontent-type: " + kind + "\r\ncontent-length: " + strconv.Itoa(len(body)) +
		"\r\n\r\n" + body)
}

// Models are model servers that answer each request at once.
type Models struct {
	Addresses []netip.AddrPort
	listeners []net.Listener
	pages     atomic.Int64
}

// Pages returns how many metrics pages were read.
func (m *Models) Pages() int64 { return m.pages.Load() }

// StartModels starts n servers.
func StartModels(n int) (*Models, error) { return StartPages(n, 0) }

// StartPages starts n servers whose metrics pages have at least size bytes, most of them histograms
// that a picker does not read, as those of vLLM.
func StartPages(n, size int) (*Models, error) {
	text := []byte(page)
	for i := 0; len(text) < size; i++ {
		text = fmt.Appendf(text,
			"vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"%d.0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d.0\n", i, i)
	}
	metricsPage := response("text/plain", string(text))
	m := &Models{}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			m.Close()
			return nil, err
		}
		m.listeners = append(m.listeners, l)
		m.Addresses = append(m.Addresses, netip.MustParseAddrPort(l.Addr().String()))
		go m.accept(l, metricsPage)
	}
	return m, nil
}

// Close ends the listeners. Connections end with their clients.
func (m *Models) Close() {
	for _, l := range m.listeners {
		_ = l.Close()
	}
}

func (m *Models) accept(l net.Listener, metricsPage []byte) {
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
					out = metricsPage
					m.pages.Add(1)
				}
				if _, err := conn.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

// readRequest reads a request whose body, if any, has a content-length, and returns its first line.
func readRequest(r *bufio.Reader) (first []byte, err error) {
	first, length, err := readHead(r)
	if err != nil {
		return nil, err
	}
	_, err = r.Discard(length)
	return first, err
}

// readHead reads the lines before a body, and returns the first one and the body's length.
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
			return nil, 0, io.ErrUnexpectedEOF // Envoy passes bodies on with their length
		}
	}
}
