package endpoint

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock-project/penstock/picker/socket"
)

// pageConn reads one metrics page repeatedly over HTTP/1.1 without TLS, in the caller's goroutine.
// A net/http.Transport takes 50 % more CPU time for its goroutines.
type pageConn struct {
	invalid error
	address string
	request []byte
	conn    net.Conn
	stop    func() bool // detaches conn from the context
	from    io.LimitedReader
	in      *bufio.Reader
}

var get = &http.Request{Method: http.MethodGet}

func newPageConn(page string) *pageConn {
	u, err := url.Parse(page) // rejects control characters
	if err != nil {
		return &pageConn{invalid: err}
	}
	return &pageConn{
		address: u.Host,
		request: []byte("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: penstock\r\n\r\n"),
	}
}

func (c *pageConn) read(ctx context.Context, deadline time.Time, f func(*http.Response) error) error {
	if c.invalid != nil {
		return c.invalid
	}
	if err := ctx.Err(); err != nil { // the end of ctx closes the connection
		c.Close()
		return err
	}
	kept := c.conn != nil
	response, err := c.ask(ctx, deadline)
	if err != nil && kept && ctx.Err() == nil && time.Now().Before(deadline) {
		response, err = c.ask(ctx, deadline) // retry once: the server may have closed the idle connection
	}
	if err != nil {
		return err
	}
	again := false
	defer func() {
		if !again {
			c.Close()
		}
	}()
	if err := f(response); err != nil {
		return err
	}
	again = !response.Close && c.in.Buffered() == 0
	return nil
}

func (c *pageConn) ask(ctx context.Context, deadline time.Time) (*http.Response, error) {
	if c.conn == nil {
		conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return nil, err
		}
		conn = socket.Conn(conn)
		c.conn, c.from.R = conn, conn
		c.in = bufio.NewReader(&c.from)
		c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	err := c.conn.SetDeadline(deadline)
	if err == nil {
		_, err = c.conn.Write(c.request)
	}
	var response *http.Response
	if err == nil {
		c.from.N = maxHeader
		response, err = http.ReadResponse(c.in, get)
		c.from.N = math.MaxInt64
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return response, nil
}

func (c *pageConn) Close() {
	if c.conn != nil {
		c.stop()
		_ = c.conn.Close()
		c.conn, c.in, c.from.R, c.stop = nil, nil, nil, nil
	}
}
